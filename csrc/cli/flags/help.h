#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tv::cli {

struct Options;

/// What --help and --version of the command print, behind the flags that `app` has so far.
void add_help(CLI::App& app, const Options& options);

}  // namespace tv::cli

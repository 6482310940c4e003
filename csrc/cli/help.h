#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tv::cli {

/// What --help and --version print, behind the flags that `app` has so far.
void add_help(CLI::App& app, const std::string& verb);

}  // namespace tv::cli

#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tv::cli {

/// The text of --help: flags by group, then examples.
std::string help_text(const CLI::App& app, bool compare);

}  // namespace tv::cli

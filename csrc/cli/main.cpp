// vkexec: builds engines from ONNX files, runs and times engines. docs/vkexec.md is its reference.

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "csrc/cli/flags/options.h"
#include "csrc/cli/run.h"
#include "csrc/cli/text/command_error.h"
#include "csrc/cli/text/lines.h"
#include "csrc/version.h"
#include "runtime/base/error.h"
#include "runtime/vulkan/driver_environment.h"

namespace tv::cli {
namespace {

constexpr int kFailed = 1, kBadCommand = 2;

std::string command_line(int argc, const char* const* argv) {
  std::string text = "vkexec";
  for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
  return text;
}

int run(int argc, const char* const* argv) {
  Command command;
  try {
    command = parse_command(argc, argv);
  } catch (const CommandError& error) {
    std::fprintf(stderr, "vkexec: %s\n", error.what());
    return kBadCommand;
  }
  if (!command.text.empty()) {
    std::fputs(command.text.c_str(), stdout);
    return 0;
  }
  if (command.options.verbose) setenv("TORCH_VULKAN_LOG", "debug", /*overwrite=*/0);
  set_driver_defaults();
  const std::string what =
      std::string("vkexec [v") + kBuilderVersion + "] # " + command_line(argc, argv);
  const bool framed = !command.options.list_devices && !command.options.generate;
  if (command.options.writes_to_stdout) leave_stdout_alone();
  if (framed) std::fprintf(log_output(), "&&&& RUNNING %s\n", what.c_str());
  if (!command.warning.empty()) warn(command.warning);
  bool good = false;
  try {
    good = execute(command.options);
  } catch (const Error& error) {
    const bool internal = error.kind() == ErrorKind::kInternal;
    complain(error.what() + std::string(internal ? " (a bug in vkexec: please report it)" : ""));
  } catch (const std::exception& error) {
    complain(error.what());
  }
  if (framed) {
    std::fprintf(log_output(), "&&&& %s %s\n", good ? "PASSED" : "FAILED", what.c_str());
  }
  return good ? 0 : kFailed;
}

}  // namespace
}  // namespace tv::cli

int main(int argc, char** argv) {
  try {
    return tv::cli::run(argc, argv);
  } catch (const std::exception& error) {  // no memory for the command, or for a message
    std::fprintf(stderr, "vkexec: %s\n", error.what());
    return tv::cli::kFailed;
  }
}

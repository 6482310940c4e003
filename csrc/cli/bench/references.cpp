#include "csrc/cli/bench/references.h"

#include <filesystem>

#include "csrc/cli/bench/exports.h"
#include "runtime/base/error.h"

namespace tv::cli {

void check_references(const Options& options) {
  std::error_code unknown;
  if (!options.ref.empty() && !std::filesystem::is_directory(options.ref, unknown)) {
    throw Error(ErrorKind::kUser, "[compare] --ref: " + options.ref + " is not a directory");
  }
}

std::string path_of(const Options& options, const std::string& tensor) {
  return (std::filesystem::path(options.ref) / (file_name_of(tensor) + ".npy")).string();
}

bool has_reference(const Options& options, const std::string& tensor) {
  std::error_code unknown;  // a name that is too long is no file
  return !options.ref.empty() && std::filesystem::exists(path_of(options, tensor), unknown);
}

Options with_inputs(Options options, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (options.load_inputs.contains(name)) continue;
    if (!has_reference(options, name)) {
      throw Error(ErrorKind::kUser, "[compare] input '" + name + "': there is no " +
                                        path_of(options, name) + "; --loadInputs names another");
    }
    options.load_inputs[name] = path_of(options, name);
  }
  return options;
}

}  // namespace tv::cli

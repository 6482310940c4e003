#pragma once
// Reference tensors: a directory with NAME.npy for the tensor NAME.

#include <string>
#include <vector>

#include "csrc/cli/flags/options.h"

namespace tv::cli {

/// Throws Error(kUser) if options.ref is given and is no directory.
void check_references(const Options& options);

std::string path_of(const Options& options, const std::string& tensor);

bool has_reference(const Options& options, const std::string& tensor);

/// The options with an input file for every input, from the directory where --loadInputs names
/// none. Throws Error(kUser) for one that has none.
Options with_inputs(Options options, const std::vector<std::string>& names);

std::vector<std::string> binding_names(const auto& bindings) {
  std::vector<std::string> names;
  for (const auto& binding : bindings) names.push_back(binding.name);
  return names;
}

}  // namespace tv::cli

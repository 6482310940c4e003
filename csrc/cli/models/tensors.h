#pragma once
// Tensors by name, and networks that run on them.

#include <map>
#include <string>

#include "csrc/cli/models/inputs.h"

namespace tv::cli {

using Tensors = std::map<std::string, Tensor>;

/// The inputs of a run by name, read or filled as make_inputs does it.
Tensors input_tensors(const Network& network, const Options& options);

/// Runs a network once. `inputs` has all of its inputs, and may have more. Throws Error.
Tensors run_on(const Network& network, const Tensors& inputs);

}  // namespace tv::cli

#pragma once

#include <vector>

#include "csrc/cli/flags/options.h"
#include "csrc/cli/models/network.h"

namespace tv::cli {

/// Shapes, engine and tensors of a run.
struct RunInputs {
  Bound bound;
  std::vector<Tensor> tensors;  ///< in the order of the specification
};

/// Reads or fills the inputs: shapes come from --shapes, else from .npy files, else the engine's
/// usual ones. Throws Error(kUser) naming the input.
RunInputs make_inputs(const Network& network, const Options& options);

/// Zeros for the outputs.
std::vector<Tensor> make_outputs(const Bound& bound);

/// In the order of the caller's tensors.
std::vector<HostTensor> host_tensors(const std::vector<Tensor>& tensors);

/// The tensor row-major, where the engine wrote it in the order that its strides say.
Tensor row_major(const Tensor& tensor, const Binding& binding, std::span<const int64_t> symbols);

}  // namespace tv::cli

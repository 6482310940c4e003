#pragma once
// Other contents for weights that engines use.

#include <ATen/core/Tensor.h>

namespace tv::torch_bindings {

/// Copies values[i] into weights[i], of the same shapes and dtypes; no signal of Python comes
/// between. Dense CPU tensors are copied by this thread: among a hundred small copies, waiting for
/// the helpers of each takes longer than the copies.
void assign(at::TensorList weights, at::TensorList values);

}  // namespace tv::torch_bindings

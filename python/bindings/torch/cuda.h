#pragma once
// CUDA tensors at the border. Nothing here links torch's CUDA libraries: what is needed of them is
// found in the process, where a CUDA tensor can only exist once they are loaded.

#include <ATen/core/Tensor.h>

#include "runtime/engine/engine.h"

namespace tv::torch_bindings {

/// The cudaStream_t that torch puts work on now, for CUDA device `index` and this thread.
void* current_cuda_stream(c10::DeviceIndex index);

/// `tensor` as `dtype` on the CUDA device, dense row-major, aligned, without pending conjugation or
/// negation; itself where it is all that already. Copies are put on the current stream.
at::Tensor to_cuda(const at::Tensor& tensor, at::ScalarType dtype, at::Device device);

CudaTensor cuda_tensor(const at::Tensor& tensor);

}  // namespace tv::torch_bindings

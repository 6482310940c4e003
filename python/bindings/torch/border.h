#pragma once
// Making torch tensors fit an engine's bindings and back.

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/engine/engine.h"

namespace tv::torch_bindings {

/// Host addresses handed to an engine are multiples of this: kernels load four floats at a time.
inline constexpr uintptr_t kAlignment = 16;

/// torch's dtype and the compiler's; Undefined and kOther where the other has none.
at::ScalarType to_torch(DType dtype);
DType from_torch(at::ScalarType dtype);
/// What engines hold tensors of a dtype as: small floating-point numbers as their codes in uint8,
/// others as from_torch says.
DType held_as(at::ScalarType dtype);

/// `tensor` as `dtype` on the CPU, dense row-major, aligned, without pending conjugation or
/// negation; itself where it is all that already. CUDA tensors are copied after the work that makes
/// them.
at::Tensor to_host(const at::Tensor& tensor, at::ScalarType dtype);

/// Throws Error(kUser) naming the binding unless the dtypes agree; with `truncate`, int64 and
/// float64 do for int32 and float32.
void check_dtype(const char* what, const Binding& binding, const at::Tensor& tensor, bool truncate);
/// Before an engine writes it. Throws a RuntimeError, as PyTorch.
void check_writable(const at::Tensor& tensor);

/// Throws Error(kUser) unless every tensor is on one device, `wanted` where it is given; numbers of
/// the host, tensors without dimensions, go with any.
void check_device(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights,
                  std::optional<at::Device> wanted);

HostTensor host_tensor(const at::Tensor& tensor);

/// Of the first tensor that is not on the CPU, else the CPU: where the results of a call go.
at::Device device_of(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights);

/// Throws what Python turns into ValueError, NotImplementedError, OutOfMemoryError or RuntimeError.
[[noreturn]] void rethrow(const Error& error);

}  // namespace tv::torch_bindings

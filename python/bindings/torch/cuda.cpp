#include "python/bindings/torch/cuda.h"

#include <dlfcn.h>

#include "python/bindings/torch/border.h"

namespace tv::torch_bindings {
namespace {

// torch's C interface for compiled models (torch/csrc/inductor/aoti_torch/c/shim.h), which keeps
// its binary form over versions.
using GetCurrentStream = int32_t (*)(int32_t device_index, void** stream);

GetCurrentStream find_get_current_stream() {
  void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  void* symbol = dlsym(library ? library : RTLD_DEFAULT, "aoti_torch_get_current_cuda_stream");
  return reinterpret_cast<GetCurrentStream>(symbol);
}

}  // namespace

void* current_cuda_stream(c10::DeviceIndex index) {
  static const GetCurrentStream get = find_get_current_stream();
  void* stream = nullptr;
  if (!get || get(index, &stream) != 0) {
    throw Error(ErrorKind::kDevice, "[cuda] torch's current stream cannot be found");
  }
  return stream;
}

at::Tensor to_cuda(const at::Tensor& tensor, at::ScalarType dtype, at::Device device) {
  at::Tensor made = tensor;
  if (made.is_conj()) made = made.resolve_conj();
  if (made.is_neg()) made = made.resolve_neg();
  if (made.device() != device) made = made.to(device);
  if (to_torch(held_as(made.scalar_type())) != dtype) made = made.to(dtype);
  made = made.contiguous();
  const auto address = reinterpret_cast<uintptr_t>(made.const_data_ptr());
  if (address % kAlignment != 0) made = made.clone(at::MemoryFormat::Contiguous);
  return made;
}

CudaTensor cuda_tensor(const at::Tensor& tensor) {
  return {const_cast<void*>(tensor.const_data_ptr()), static_cast<int64_t>(tensor.nbytes())};
}

}  // namespace tv::torch_bindings

#include "python/bindings/torch/border.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include "runtime/vulkan/device_lost.h"

namespace tv::torch_bindings {

at::ScalarType to_torch(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF64:
      return at::kDouble;
    case DType::kI64:
      return at::kLong;
    case DType::kI32:
      return at::kInt;
    case DType::kI16:
      return at::kShort;
    case DType::kI8:
      return at::kChar;
    case DType::kU8:
      return at::kByte;
    case DType::kBool:
      return at::kBool;
    case DType::kOther:
      break;
  }
  return at::ScalarType::Undefined;
}

DType from_torch(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return DType::kF32;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kDouble:
      return DType::kF64;
    case at::kLong:
      return DType::kI64;
    case at::kInt:
      return DType::kI32;
    case at::kShort:
      return DType::kI16;
    case at::kChar:
      return DType::kI8;
    case at::kByte:
    case at::kFloat8_e4m3fn:  // held as codes
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2:
    case at::kFloat8_e5m2fnuz:
    case at::kFloat8_e8m0fnu:
      return DType::kU8;
    case at::kBool:
      return DType::kBool;
    default:
      return DType::kOther;
  }
}

at::Tensor to_host(const at::Tensor& tensor, at::ScalarType dtype) {
  at::Tensor host = tensor;
  if (host.is_conj()) host = host.resolve_conj();
  if (host.is_neg()) host = host.resolve_neg();
  if (!host.is_cpu()) host = host.cpu();
  if (to_torch(from_torch(host.scalar_type())) != dtype) host = host.to(dtype);
  host = host.contiguous();
  const auto address = reinterpret_cast<uintptr_t>(host.const_data_ptr());
  if (address % kAlignment != 0) host = host.clone(at::MemoryFormat::Contiguous);
  return host;
}

void check_dtype(const char* what, const Binding& binding, const at::Tensor& tensor,
                 bool truncate) {
  if (tensor.layout() != at::kStrided) {
    throw Error(ErrorKind::kUser, std::string("[torch_vulkan::execute] layout of ") + what + " '" +
                                      binding.name + "'; got " + c10::str(tensor.layout()) +
                                      ", want Strided");
  }
  const DType got = from_torch(tensor.scalar_type());
  if (got == binding.dtype) return;
  if (truncate && got == DType::kI64 && binding.dtype == DType::kI32) return;
  if (truncate && got == DType::kF64 && binding.dtype == DType::kF32) return;
  throw Error(ErrorKind::kUser, std::string("[torch_vulkan::execute] dtype of ") + what + " '" +
                                    binding.name + "'; got " + c10::toString(tensor.scalar_type()) +
                                    ", want " + std::string(name(binding.dtype)));
}

void check_writable(const at::Tensor& tensor) {
  TORCH_CHECK(!tensor.is_inference() || c10::InferenceMode::is_enabled(),
              "[torch_vulkan::execute] Inplace update to inference tensor outside InferenceMode is "
              "not allowed: clone it first");
}

at::Device device_of(const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& weights) {
  for (const auto* tensors : {&inputs, &weights}) {
    for (const at::Tensor& tensor : *tensors) {
      if (!tensor.is_cpu()) return tensor.device();
    }
  }
  return at::kCPU;
}

namespace {

// What goes with tensors of any device: a number, and sizes that no tensor shows.
bool is_of_host(const at::Tensor& tensor) {
  return tensor.is_cpu() && (tensor.dim() == 0 || tensor.numel() == 0);
}

}  // namespace

void check_device(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights,
                  std::optional<at::Device> wanted) {
  const at::Device device = wanted.value_or(device_of(inputs, weights));
  for (const auto* tensors : {&inputs, &weights}) {
    for (const at::Tensor& tensor : *tensors) {
      if (tensor.device() == device || is_of_host(tensor)) continue;
      throw Error(ErrorKind::kUser, "[torch_vulkan::execute] device of a tensor; got " +
                                        tensor.device().str() + ", want " + device.str());
    }
  }
}

HostTensor host_tensor(const at::Tensor& tensor) {
  return {const_cast<void*>(tensor.const_data_ptr()), static_cast<int64_t>(tensor.nbytes())};
}

void rethrow(const Error& error) {
  const std::string text = error.what();
  if (const auto* bad = dynamic_cast<const tv::BadValueError*>(&error)) {
    if (bad->reason() == tv::BadValueError::What::kIndex) C10_THROW_ERROR(IndexError, text);
    C10_THROW_ERROR(Error, text);
  }
  switch (error.kind()) {
    case ErrorKind::kUser:
      C10_THROW_ERROR(ValueError, text);
    case ErrorKind::kUnsupported:
      C10_THROW_ERROR(NotImplementedError, text);
    case ErrorKind::kDevice:
      if (dynamic_cast<const tv::OutOfMemoryError*>(&error))
        C10_THROW_ERROR(OutOfMemoryError, text);
      if (dynamic_cast<const tv::DeviceLostError*>(&error)) {
        constexpr int32_t kDeviceLost = -4;  // VK_ERROR_DEVICE_LOST
        throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, kDeviceLost, text);
      }
      C10_THROW_ERROR(Error, text);
    case ErrorKind::kInternal:
      break;
  }
  C10_THROW_ERROR(Error, text + " (a bug in torch_vulkan: please report it)");
}

}  // namespace tv::torch_bindings

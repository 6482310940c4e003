#include "python/bindings/torch/border.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "runtime/vulkan/device_lost.h"

namespace tv::torch_bindings {

namespace {

struct DtypePair {
  DType dtype;
  at::ScalarType torch;
};
constexpr DtypePair kDtypes[] = {{DType::kF32, at::kFloat},     {DType::kF16, at::kHalf},
                                 {DType::kBF16, at::kBFloat16}, {DType::kF64, at::kDouble},
                                 {DType::kI64, at::kLong},      {DType::kI32, at::kInt},
                                 {DType::kI16, at::kShort},     {DType::kI8, at::kChar},
                                 {DType::kU8, at::kByte},       {DType::kBool, at::kBool}};

}  // namespace

at::ScalarType to_torch(DType dtype) {
  const auto* const pair = std::ranges::find(kDtypes, dtype, &DtypePair::dtype);
  return pair == std::end(kDtypes) ? at::ScalarType::Undefined : pair->torch;
}

DType from_torch(at::ScalarType dtype) {
  const auto* const pair = std::ranges::find(kDtypes, dtype, &DtypePair::torch);
  return pair == std::end(kDtypes) ? DType::kOther : pair->dtype;
}

DType held_as(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2:
    case at::kFloat8_e5m2fnuz:
    case at::kFloat8_e8m0fnu:
      return DType::kU8;
    default:
      return from_torch(dtype);
  }
}

at::Tensor to_host(const at::Tensor& tensor, at::ScalarType dtype) {
  at::Tensor host = tensor;
  if (host.is_conj()) host = host.resolve_conj();
  if (host.is_neg()) host = host.resolve_neg();
  if (!host.is_cpu()) host = host.cpu();
  if (to_torch(held_as(host.scalar_type())) != dtype) host = host.to(dtype);
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
  const DType got = held_as(tensor.scalar_type());
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

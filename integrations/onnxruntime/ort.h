#pragma once
// ONNX Runtime's API, and how errors leave this library: as an OrtStatus.
//
// The headers are of API 23, the first with plugin providers; every later runtime serves it.

#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <exception>
#include <new>
#include <string>

#include "csrc/cli/text/command_error.h"
#include "runtime/base/error.h"

namespace tv::ort {

inline constexpr const char* kName = "VulkanExecutionProvider";

/// What is in hand of the API beside the headers' version.
struct Api {
  const OrtApi* ort = nullptr;
  const OrtEpApi* ep = nullptr;
  /// Whether a shape is known; null before API 24, where a scalar looks alike.
  bool (*has_shape)(const OrtTensorTypeAndShapeInfo*) = nullptr;
  /// Whether providers may write into traces: from API 25 on.
  bool has_profiler = false;
};
/// Set once a runtime has loaded the library.
Api& api();

/// TensorProto.DataType. The runtime counts as ONNX does up to float4e2m1, 23; it has no
/// float8e8m0, and so uint2 and int2, which the headers do not name, are one lower.
inline int32_t onnx_type(ONNXTensorElementDataType type) {
  const auto number = static_cast<int32_t>(type);
  return number < 24 ? number : number + 1;
}

inline OrtStatus* status(OrtErrorCode code, const std::string& message) noexcept {
  return api().ort->CreateStatus(code, message.c_str());
}

/// Who can act on it, in the runtime's codes.
inline OrtErrorCode code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUser:
      return ORT_INVALID_ARGUMENT;
    case ErrorKind::kUnsupported:
      return ORT_NOT_IMPLEMENTED;
    default:
      return ORT_EP_FAIL;
  }
}

/// Runs `function`; what it throws becomes the status.
template <typename F>
OrtStatus* guarded(F&& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const Error& error) {
    return status(code_of(error.kind()), std::string(kName) + ": " + error.what());
  } catch (const cli::CommandError& error) {
    return status(ORT_INVALID_ARGUMENT, std::string(kName) + ": " + error.what());
  } catch (const Ort::Exception& error) {
    return status(error.GetOrtErrorCode(), std::string(kName) + ": " + error.what());
  } catch (const std::bad_alloc&) {
    return status(ORT_EP_FAIL, std::string(kName) + ": out of memory");
  } catch (const std::exception& error) {
    return status(ORT_EP_FAIL, std::string(kName) + ": " + error.what());
  } catch (...) {
    return status(ORT_EP_FAIL, std::string(kName) + ": an error of unknown kind");
  }
}

}  // namespace tv::ort

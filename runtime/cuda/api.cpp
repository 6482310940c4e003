#include "runtime/cuda/api.h"

#include <dlfcn.h>

namespace tv {
namespace {

struct Driver {
  CudaApi api;
  std::string reason;  ///< empty if the functions can be used
};

Driver open_driver() {
  Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    driver.reason = "there is no libcuda.so.1";
    return driver;
  }
#define TV_CUDA_LOAD(name, symbol, parameters)                                         \
  driver.api.name = reinterpret_cast<CuResult(*) parameters>(dlsym(library, #symbol)); \
  if (!driver.api.name && driver.reason.empty()) {                                     \
    driver.reason = "libcuda.so.1 is too old: it lacks " #symbol;                      \
  }
  TV_CUDA_FUNCTIONS(TV_CUDA_LOAD)
#undef TV_CUDA_LOAD
  if (!driver.reason.empty()) return driver;
  const CuResult result = driver.api.cuInit(0);
  if (result != kCuSuccess) {
    driver.reason = "cuInit failed: " + cuda_result_name(driver.api, result);
  }
  return driver;
}

}  // namespace

const CudaApi* cuda_api(std::string* reason) {
  static const Driver driver = open_driver();
  if (reason) *reason = driver.reason;
  return driver.reason.empty() ? &driver.api : nullptr;
}

std::string cuda_result_name(const CudaApi& api, CuResult result) {
  const char* name = nullptr;
  if (api.cuGetErrorName(result, &name) != kCuSuccess || !name) name = "CUDA error";
  return std::string(name) + " (" + std::to_string(result) + ")";
}

std::string uuid_text(const CuUuid& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : uuid.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

CudaScope::CudaScope(const CudaApi& api, CuContext context) : api_(api) {
  CuContext current = nullptr;
  api_.cuCtxGetCurrent(&current);
  if (current == context) return;
  pushed_ = api_.cuCtxPushCurrent(context) == kCuSuccess;
}

CudaScope::~CudaScope() {
  CuContext popped = nullptr;
  if (pushed_) api_.cuCtxPopCurrent(&popped);
}

}  // namespace tv

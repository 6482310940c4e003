#include "runtime/vulkan/driver_environment.h"

#include <cstdlib>
#include <filesystem>

#include "runtime/base/env.h"
#include "runtime/base/file.h"
#include "runtime/vulkan/lavapipe.h"

namespace tv {

std::string driver_environment() {
  static constexpr const char* kOfDrivers[] = {
      "LP_NATIVE_VECTOR_WIDTH", "LP_NUM_THREADS", "LP_PERF",     "GALLIVM_PERF", "RADV_DEBUG",
      "RADV_PERFTEST",          "ANV_DEBUG",      "INTEL_DEBUG", "NVK_DEBUG"};
  std::string text;
  for (const char* name : kOfDrivers) {
    const char* value = std::getenv(name);
    if (value) text += std::string(text.empty() ? "" : " ") + name + "=" + value;
  }
  return text;
}

void set_driver_defaults() {
#if defined(__x86_64__) && defined(__GNUC__)
  // lavapipe uses 256-bit vectors unless told; 512-bit ones are about twice as fast.
  const char* drivers = std::getenv("VK_DRIVER_FILES");
  if (!drivers) drivers = std::getenv("VK_ICD_FILENAMES");
  if (__builtin_cpu_supports("avx512f") && lavapipe_takes_512_bits(driver_manifests(drivers))) {
    setenv("LP_NATIVE_VECTOR_WIDTH", "512", /*overwrite=*/0);
  }
#endif
  // Mesa's shader cache does not key on that width: each has a directory of its own.
  const std::string cache = default_cache_dir();
  if (cache.empty() || std::getenv("MESA_SHADER_CACHE_DIR")) return;
  const char* width = std::getenv("LP_NATIVE_VECTOR_WIDTH");
  const std::string dir = cache + "/mesa-" + (width ? width : "default");
  // Without the directory Mesa compiles each time, which is only slow.
  if (!make_private_directories(dir)) return;
  setenv("MESA_SHADER_CACHE_DIR", dir.c_str(), /*overwrite=*/0);
}

}  // namespace tv

#include "runtime/env.h"

#include <cstdlib>
#include <filesystem>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/lavapipe.h"
#include "runtime/store.h"

namespace tv {

namespace {

constexpr EnvVariable kVariables[] = {
    {"TORCH_VULKAN_LOG", "log level: trace, debug, info, warn (default), error, off"},
    {"TORCH_VULKAN_VALIDATION", "1: run with the Khronos validation layer; a message is an error"},
    {"TORCH_VULKAN_LIBRARY", "path of the Vulkan loader; default libvulkan.so.1"},
    {"TORCH_VULKAN_DEVICE", "device used where no setting names one: index, name part or UUID"},
    {"TORCH_VULKAN_OPTIMIZATION_LEVEL", "the setting optimization_level where none is given"},
    {"TORCH_VULKAN_STAGING", "1: copy tensors on lavapipe as on a GPU, in place of using them in place"},
    {"TORCH_VULKAN_CUDA",
     "how CUDA tensors reach an engine: auto (default), semaphores (no counter in shared memory), "
     "staged (copies on the device), host (copies through the host)"},
    {"TORCH_VULKAN_POISON_ARENA", "1: fill activations with NaN before each run (debugging)"},
    {"TORCH_VULKAN_FULL_BARRIERS", "1: a barrier before every dispatch (debugging)"},
    {"TORCH_VULKAN_CHECK_HAZARDS", "1: recompute the hazards of each recording (debugging)"},
    {"TORCH_VULKAN_REMOVE_BARRIER", "number of a barrier to leave out (tests of the hazard check)"},
    {"TORCH_VULKAN_SUBMIT_US", "predicted microseconds at which work is cut into submissions; 0: never"},
    {"TORCH_VULKAN_LOSE_DEVICE",
     "number of the submission that loses the device; 5+: and each later one (tests)"},
    {"TORCH_VULKAN_SYSTEM_CACHE",
     "a read-only directory with engines shipped in an image; default /usr/share/torch_vulkan/cache"},
    {"XDG_CACHE_HOME", "the cache is kept in its directory torch_vulkan"},
    {"HOME", "the cache is kept in .cache/torch_vulkan there, where XDG_CACHE_HOME is not set"},
};

}  // namespace

std::span<const EnvVariable> env_variables() { return kVariables; }

std::string env(std::string_view name) {
  for (const EnvVariable& variable : kVariables) {
    if (name != variable.name) continue;
    const char* value = std::getenv(variable.name);
    return value ? value : "";
  }
  throw Error(ErrorKind::kInternal, "[env] " + std::string(name) + " is not in the list of env.cpp");
}

bool env_flag(std::string_view name) {
  const std::string value = env(name);
  return !(value.empty() || value == "0" || value == "false" || value == "off");
}

std::string driver_environment() {
  static constexpr const char* kOfDrivers[] = {
      "LP_NATIVE_VECTOR_WIDTH", "LP_NUM_THREADS", "LP_PERF",      "GALLIVM_PERF", "RADV_DEBUG",
      "RADV_PERFTEST",          "ANV_DEBUG",      "INTEL_DEBUG",  "NVK_DEBUG"};
  std::string text;
  for (const char* name : kOfDrivers) {
    const char* value = std::getenv(name);
    if (value) text += std::string(text.empty() ? "" : " ") + name + "=" + value;
  }
  return text;
}

std::string system_cache_dir() {
  const std::string dir = env("TORCH_VULKAN_SYSTEM_CACHE");
  return dir.empty() ? "/usr/share/torch_vulkan/cache" : dir;
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

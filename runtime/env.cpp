#include "runtime/env.h"

#include <cstdlib>

#include "runtime/error.h"

namespace tv {

namespace {

constexpr EnvVariable kVariables[] = {
    {"TORCH_VULKAN_LOG", "log level: trace, debug, info, warn (default), error, off"},
    {"TORCH_VULKAN_VALIDATION", "1: run with the Khronos validation layer; a message is an error"},
    {"TORCH_VULKAN_LIBRARY", "path of the Vulkan loader; default libvulkan.so.1"},
    {"TORCH_VULKAN_DEVICE", "device used where no setting names one: index, name part or UUID"},
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

void set_driver_defaults() {
#if defined(__x86_64__) && defined(__GNUC__)
  // lavapipe uses 256-bit vectors unless told; 512-bit ones are about twice as fast.
  if (__builtin_cpu_supports("avx512f")) setenv("LP_NATIVE_VECTOR_WIDTH", "512", /*overwrite=*/0);
#endif
}

}  // namespace tv

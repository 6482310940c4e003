#include "runtime/base/env.h"

#include <cstdlib>

#include "runtime/base/error.h"

namespace tv {

namespace {

constexpr EnvVariable kVariables[] = {
    {"TORCH_VULKAN_LOG", "log level: trace, debug, info, warn (default), error, off"},
    {"TORCH_VULKAN_VALIDATION", "1: run with the Khronos validation layer; a message is an error"},
    {"TORCH_VULKAN_LIBRARY", "path of the Vulkan loader; default libvulkan.so.1"},
    {"TORCH_VULKAN_DEVICE", "device used where no setting names one: index, name part or UUID"},
    {"TORCH_VULKAN_OPTIMIZATION_LEVEL", "the setting optimization_level where none is given"},
    {"TORCH_VULKAN_STAGING",
     "1: copy tensors on lavapipe as on a GPU, instead of using them in place"},
    {"TORCH_VULKAN_CUDA",
     "how CUDA tensors reach an engine: auto (default), semaphores (no counter in shared memory), "
     "staged (copies on the device), host (copies through the host)"},
    {"TORCH_VULKAN_POISON_ARENA", "1: fill activations with NaN before each run (debugging)"},
    {"TORCH_VULKAN_FULL_BARRIERS", "1: a barrier before every dispatch (debugging)"},
    {"TORCH_VULKAN_CHECK_HAZARDS", "1: recompute the hazards of each recording (debugging)"},
    {"TORCH_VULKAN_REMOVE_BARRIER", "number of a barrier to leave out (tests of the hazard check)"},
    {"TORCH_VULKAN_WEIGHT_BUDGET", "the setting weight_budget where none is given, or -1"},
    {"TORCH_VULKAN_ONE_QUEUE", "1: the queue that computes copies weights, too (comparisons)"},
    {"TORCH_VULKAN_DEVICE_BYTES", "bytes of device memory that there are at most (tests)"},
    {"TORCH_VULKAN_SUBMIT_US",
     "predicted microseconds at which work is cut into submissions; 0: never"},
    {"TORCH_VULKAN_CHECK_OPERATORS",
     "1: check arguments and shapes of every node that is planned, as of graph files (tests)"},
    {"TORCH_VULKAN_OWN_PIPELINES",
     "1: each engine makes pipelines of its own, shared with no other (tests)"},
    {"TORCH_VULKAN_LOSE_DEVICE",
     "number of the submission that loses the device; 5+: and each later one (tests)"},
    {"TORCH_VULKAN_SYSTEM_CACHE",
     "a read-only directory with engines shipped in an image; default "
     "/usr/share/torch_vulkan/cache"},
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
  throw Error(ErrorKind::kInternal,
              "[env] " + std::string(name) + " is not in the list of env.cpp");
}

bool env_flag(std::string_view name) {
  const std::string value = env(name);
  return !(value.empty() || value == "0" || value == "false" || value == "off");
}

std::string variable_of_key(std::string_view key) {
  std::string name = "TORCH_VULKAN_";
  for (const char c : key) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::string env_of_key(std::string_view key) {
  const char* value = std::getenv(variable_of_key(key).c_str());
  return value ? value : "";
}

std::string default_cache_dir() {
  const std::string xdg = env("XDG_CACHE_HOME");
  if (!xdg.empty() && xdg.front() == '/') return xdg + "/torch_vulkan";
  const std::string home = env("HOME");
  return !home.empty() && home.front() == '/' ? home + "/.cache/torch_vulkan" : "";
}

std::string system_cache_dir() {
  const std::string dir = env("TORCH_VULKAN_SYSTEM_CACHE");
  return dir.empty() ? "/usr/share/torch_vulkan/cache" : dir;
}

}  // namespace tv

#include "runtime/vulkan/loader.h"

#include <dlfcn.h>

#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

GlobalApi open_loader() {
  void* library = nullptr;
  const std::string chosen = env("TORCH_VULKAN_LIBRARY");
  for (const std::string& name : chosen.empty()
                                     ? std::vector<std::string>{"libvulkan.so.1", "libvulkan.so"}
                                     : std::vector<std::string>{chosen}) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) break;
  }
  if (!library) {
    throw Error(ErrorKind::kDevice,
                std::string("[device] no Vulkan loader (") +
                    (chosen.empty() ? "libvulkan.so.1" : chosen) +
                    ") was found; install it and a driver: on "
                    "Debian or Ubuntu `apt-get install libvulkan1 mesa-vulkan-drivers`, or the GPU "
                    "vendor's driver");
  }
  GlobalApi api;
  api.vkGetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (!api.vkGetInstanceProcAddr) {
    throw Error(ErrorKind::kDevice, "[device] libvulkan.so.1 has no vkGetInstanceProcAddr");
  }
#define TV_VK_LOAD(name)                                                                     \
  api.name = reinterpret_cast<PFN_##name>(api.vkGetInstanceProcAddr(VK_NULL_HANDLE, #name)); \
  if (!api.name)                                                                             \
    throw Error(ErrorKind::kDevice, "[device] the Vulkan loader is too old: it lacks " #name);
  TV_VK_GLOBAL_FUNCTIONS(TV_VK_LOAD)
#undef TV_VK_LOAD
  return api;
}

}  // namespace

const GlobalApi& global_api() {
  static const GlobalApi api = open_loader();
  return api;
}

InstanceApi load_instance_api(VkInstance instance) {
  const auto get = global_api().vkGetInstanceProcAddr;
  InstanceApi api;
  api.instance = instance;
#define TV_VK_LOAD(name)                                         \
  api.name = reinterpret_cast<PFN_##name>(get(instance, #name)); \
  if (!api.name) throw Error(ErrorKind::kDevice, "[device] the Vulkan loader lacks " #name);
  TV_VK_INSTANCE_FUNCTIONS(TV_VK_LOAD)
#undef TV_VK_LOAD
#define TV_VK_LOAD(name) api.name = reinterpret_cast<PFN_##name>(get(instance, #name));
  TV_VK_OPTIONAL_INSTANCE_FUNCTIONS(TV_VK_LOAD)
#undef TV_VK_LOAD
  return api;
}

DeviceApi load_device_api(const InstanceApi& instance, VkDevice device) {
  DeviceApi api;
  api.device = device;
#define TV_VK_LOAD(name)                                                                \
  api.name = reinterpret_cast<PFN_##name>(instance.vkGetDeviceProcAddr(device, #name)); \
  if (!api.name) throw Error(ErrorKind::kDevice, "[device] the Vulkan driver lacks " #name);
  TV_VK_DEVICE_FUNCTIONS(TV_VK_LOAD)
#undef TV_VK_LOAD
#define TV_VK_LOAD(name) \
  api.name = reinterpret_cast<PFN_##name>(instance.vkGetDeviceProcAddr(device, #name));
  TV_VK_OPTIONAL_DEVICE_FUNCTIONS(TV_VK_LOAD)
#undef TV_VK_LOAD
  return api;
}

std::string result_name(VkResult result) {
  switch (result) {
#define TV_VK_NAME(name) \
  case name:             \
    return #name;
    TV_VK_NAME(VK_SUCCESS)
    TV_VK_NAME(VK_NOT_READY)
    TV_VK_NAME(VK_TIMEOUT)
    TV_VK_NAME(VK_INCOMPLETE)
    TV_VK_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    TV_VK_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    TV_VK_NAME(VK_ERROR_INITIALIZATION_FAILED)
    TV_VK_NAME(VK_ERROR_DEVICE_LOST)
    TV_VK_NAME(VK_ERROR_MEMORY_MAP_FAILED)
    TV_VK_NAME(VK_ERROR_LAYER_NOT_PRESENT)
    TV_VK_NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
    TV_VK_NAME(VK_ERROR_FEATURE_NOT_PRESENT)
    TV_VK_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
    TV_VK_NAME(VK_ERROR_TOO_MANY_OBJECTS)
    TV_VK_NAME(VK_ERROR_INVALID_SHADER_NV)
    TV_VK_NAME(VK_ERROR_UNKNOWN)
#undef TV_VK_NAME
    default:
      return "VkResult " + std::to_string(static_cast<int>(result));
  }
}

}  // namespace tv

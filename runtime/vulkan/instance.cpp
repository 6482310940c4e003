#include "runtime/vulkan/instance.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "runtime/base/debug.h"
#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/room.h"
#include "runtime/vulkan/driver_environment.h"
#include "runtime/vulkan/process_state.h"

namespace tv {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr size_t kKeptMessages = 64;

std::mutex validation_mutex;
ValidationLog validation;  // guarded by validation_mutex

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  // NVIDIA's driver asks the layer for this function of its own; no call of ours is behind it.
  if (std::strstr(data->pMessage, "vkGetPhysicalDeviceVideoEncodeQualityLevelPropertiesKHR")) {
    return VK_FALSE;
  }
  const std::lock_guard lock(validation_mutex);
  ++validation.count;
  if (validation.messages.size() < kKeptMessages) validation.messages.push_back(data->pMessage);
  return VK_FALSE;
}

bool has_layer(const GlobalApi& api, const char* name) {
  uint32_t count = 0;
  api.vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  api.vkEnumerateInstanceLayerProperties(&count, layers.data());
  return std::any_of(layers.begin(), layers.end(),
                     [&](const VkLayerProperties& l) { return !std::strcmp(l.layerName, name); });
}

int rank(DeviceType type) {
  switch (type) {
    case DeviceType::kDiscrete:
      return 0;
    case DeviceType::kIntegrated:
      return 1;
    case DeviceType::kVirtual:
      return 2;
    case DeviceType::kCpu:
      return 4;
    case DeviceType::kOther:
      return 3;
  }
  return 3;
}

VkDebugUtilsMessengerCreateInfoEXT messenger_info() {
  VkDebugUtilsMessengerCreateInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                     VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = on_message;
  return info;
}

}  // namespace

ValidationLog validation_log() {
  const std::lock_guard lock(validation_mutex);
  return validation;
}

void reset_validation_log() {
  const std::lock_guard lock(validation_mutex);
  validation.count = 0;
  validation.messages.clear();
}

Instance& Instance::get() {
  require_vulkan_usable();
  static std::mutex mutex;
  // Never freed by a static destructor: drivers may be unloaded before it runs (see device.cpp).
  static Instance* instance = nullptr;
  const std::lock_guard lock(mutex);
  if (!instance) instance = new Instance();
  return *instance;
}

Instance::Instance() {
  constexpr size_t kLibrariesBytes = size_t{320} << 20;  // Mesa's, with LLVM, take 211 MiB
  require_room(kLibrariesBytes, "loading Vulkan's drivers");
  set_driver_defaults();
  const GlobalApi& global = global_api();
  uint32_t loader_version = 0;
  global.vkEnumerateInstanceVersion(&loader_version);
  if (loader_version < VK_API_VERSION_1_3) {
    throw Error(ErrorKind::kDevice,
                "[device] the Vulkan loader is older than 1.3; update libvulkan1");
  }
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "torch_vulkan";
  application.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;

  const bool validate = env_flag("TORCH_VULKAN_VALIDATION");
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  const VkDebugUtilsMessengerCreateInfoEXT messages = messenger_info();
  if (validate) {
    if (!has_layer(global, kValidationLayer)) {
      throw Error(ErrorKind::kDevice,
                  "[device] TORCH_VULKAN_VALIDATION=1 needs VK_LAYER_KHRONOS_validation; install "
                  "vulkan-validationlayers");
    }
    info.pNext = &messages;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &extension;
  }
  VkInstance handle = VK_NULL_HANDLE;
  const VkResult result = global.vkCreateInstance(&info, nullptr, &handle);
  if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY)
    throw OutOfMemoryError("[device] out of memory: " + std::string(result_name(result)));
  if (result != VK_SUCCESS) {
    throw Error(ErrorKind::kDevice,
                "[device] no Vulkan instance could be made (" + result_name(result) +
                    "); is a driver installed? On Debian or Ubuntu `apt-get install "
                    "mesa-vulkan-drivers` brings lavapipe, which runs on any CPU");
  }
  watch_forks();
  api_ = load_instance_api(handle);
  if (validate && api_.vkCreateDebugUtilsMessengerEXT) {
    api_.vkCreateDebugUtilsMessengerEXT(handle, &messages, nullptr, &messenger_);
    const std::lock_guard lock(validation_mutex);
    validation.active = true;
  }
  enumerate();
}

void Instance::enumerate() {
  uint32_t count = 0;
  api_.vkEnumeratePhysicalDevices(api_.instance, &count, nullptr);
  std::vector<VkPhysicalDevice> handles(count);
  if (count) api_.vkEnumeratePhysicalDevices(api_.instance, &count, handles.data());
  std::string refusals;
  for (uint32_t i = 0; i < count; ++i) {
    std::string refusal;
    PhysicalDevice device = describe(api_, handles[i], refusal);
    if (refusal.empty()) {
      devices_.push_back(std::move(device));
    } else {
      refusals += (refusals.empty() ? "" : "; ") + refusal;
    }
  }
  std::stable_sort(devices_.begin(), devices_.end(), [](const auto& a, const auto& b) {
    return rank(a.profile.type) < rank(b.profile.type);
  });
  if (devices_.empty()) {
    throw Error(ErrorKind::kDevice,
                refusals.empty()
                    ? "[device] the Vulkan loader found no driver; on Debian or Ubuntu `apt-get "
                      "install mesa-vulkan-drivers` brings lavapipe, which runs on any CPU"
                    : "[device] no Vulkan device can be used: " + refusals);
  }
}

void Instance::destroy() {
  if (messenger_) api_.vkDestroyDebugUtilsMessengerEXT(api_.instance, messenger_, nullptr);
  messenger_ = VK_NULL_HANDLE;
  if (api_.instance) api_.vkDestroyInstance(api_.instance, nullptr);
  api_.instance = VK_NULL_HANDLE;
}

}  // namespace tv

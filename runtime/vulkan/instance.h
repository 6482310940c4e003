#pragma once
// The process's one Vulkan instance and its physical devices.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/vulkan/device_profile.h"
#include "runtime/vulkan/loader.h"

namespace tv {

/// A device that engines can run on, with what is enabled when it is opened.
struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  uint32_t queue_family = 0;
  std::optional<uint32_t> transfer_family;  ///< of a queue that copies beside the other
  DeviceProfile profile;
  std::vector<std::string> extensions;  ///< to enable
  VkPhysicalDeviceMemoryProperties memory = {};
  VkDeviceSize max_buffer_bytes = 0;
  bool memory_budget = false;     ///< the driver says what is free (VK_EXT_memory_budget)
  bool sparse_binding = false;    ///< the queue binds memory to sparse buffers
  float timestamp_period_ns = 0;  ///< of the queue's timestamps; 0: it has none
};

class Instance {
 public:
  /// Creates the instance at the first call. Throws Error(kDevice) that says what to install.
  static Instance& get();

  const InstanceApi& api() const { return api_; }
  /// Devices with Vulkan 1.3 and what engines need, best first.
  const std::vector<PhysicalDevice>& devices() const { return devices_; }
  /// Destroys the instance; only the exit handler calls it, after every device.
  void destroy();

 private:
  Instance();
  void enumerate();

  InstanceApi api_;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<PhysicalDevice> devices_;
};

/// Feature structures in one chain, filled by vkGetPhysicalDeviceFeatures2.
struct FeatureChain {
  VkPhysicalDeviceFeatures2 core{};
  VkPhysicalDeviceVulkan11Features v11{};
  VkPhysicalDeviceVulkan12Features v12{};
  VkPhysicalDeviceVulkan13Features v13{};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR coop{};
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16{};
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV coop2{};

  /// Links the structures; those of an extension only where it is listed.
  explicit FeatureChain(const std::vector<std::string>& extensions);
  FeatureChain(const FeatureChain&) = delete;
};

/// Sets in `enabled` what engines may use of `offered`.
void enable_features(const FeatureChain& offered, FeatureChain& enabled);

/// Describes a physical device; why it cannot be used goes to `refusal`.
PhysicalDevice describe(const InstanceApi& api, VkPhysicalDevice handle, std::string& refusal);

}  // namespace tv

#pragma once
// The one owner of Vulkan objects.

#include <utility>

#include "runtime/vulkan/loader.h"
#include "runtime/vulkan/process_state.h"

namespace tv {

/// Owns a child object of a device; `Destroy` is the member of DeviceApi that frees it. The
/// DeviceApi must outlive the handle. Abandons the object where Vulkan may no longer be called.
template <typename T, auto Destroy>
class VkOwned {
 public:
  VkOwned() = default;
  VkOwned(const DeviceApi& api, T handle) : api_(&api), handle_(handle) {}
  VkOwned(VkOwned&& other) noexcept
      : api_(other.api_), handle_(std::exchange(other.handle_, T{VK_NULL_HANDLE})) {}
  VkOwned& operator=(VkOwned&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      handle_ = std::exchange(other.handle_, T{VK_NULL_HANDLE});
    }
    return *this;
  }
  ~VkOwned() { reset(); }

  void reset() noexcept {
    if (handle_ != T{VK_NULL_HANDLE} && vulkan_usable()) {
      (api_->*Destroy)(api_->device, handle_, nullptr);
    }
    handle_ = T{VK_NULL_HANDLE};
  }
  T get() const { return handle_; }
  explicit operator bool() const { return handle_ != T{VK_NULL_HANDLE}; }

 private:
  const DeviceApi* api_ = nullptr;
  T handle_{VK_NULL_HANDLE};
};

using OwnedBuffer = VkOwned<VkBuffer, &DeviceApi::vkDestroyBuffer>;
using OwnedMemory = VkOwned<VkDeviceMemory, &DeviceApi::vkFreeMemory>;
using OwnedSemaphore = VkOwned<VkSemaphore, &DeviceApi::vkDestroySemaphore>;
using OwnedQueryPool = VkOwned<VkQueryPool, &DeviceApi::vkDestroyQueryPool>;
using OwnedShaderModule = VkOwned<VkShaderModule, &DeviceApi::vkDestroyShaderModule>;
using OwnedPipelineLayout = VkOwned<VkPipelineLayout, &DeviceApi::vkDestroyPipelineLayout>;
using OwnedPipeline = VkOwned<VkPipeline, &DeviceApi::vkDestroyPipeline>;
using OwnedCommandPool = VkOwned<VkCommandPool, &DeviceApi::vkDestroyCommandPool>;

}  // namespace tv

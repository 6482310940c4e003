#pragma once
// Internals of Device: the logical device, its queue and what hangs on it.

#include <atomic>
#include <mutex>
#include <string>

#include "runtime/device.h"
#include "runtime/vk_handle.h"
#include "runtime/vk_instance.h"
#include "runtime/vk_memory.h"

namespace tv {

/// Push constants that every device offers; longer parameters go to a parameter block.
inline constexpr uint32_t kPushBytes = 128;

class Device {
 public:
  /// Throws Error(kDevice).
  explicit Device(const PhysicalDevice& physical);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceApi& api() const { return api_; }
  const DeviceProfile& profile() const { return physical_.profile; }
  const PhysicalDevice& physical() const { return physical_; }
  VkPipelineLayout pipeline_layout() const { return layout_.get(); }
  bool host_pointers() const { return physical_.profile.host_pointers; }

  /// Hands `commands` to the queue; `fence` is signalled at the end. Thread-safe.
  void submit(VkCommandBuffer commands, VkFence fence);
  /// Waits for `fence`, first by polling (short work ends before a thread could sleep), and resets
  /// it.
  void wait_and_reset(VkFence fence);
  void wait_idle();
  OwnedFence make_fence();
  OwnedCommandPool make_command_pool();

  /// Throws Error(kDevice) "[what] …" unless `result` is a success; remembers a lost device.
  void check(VkResult result, const char* what);
  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  void mark_lost() { lost_.store(true, std::memory_order_relaxed); }

 private:
  PhysicalDevice physical_;
  DeviceApi api_;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  OwnedPipelineLayout layout_;
  std::atomic<bool> lost_{false};
};

}  // namespace tv

#pragma once
// Internals of Device: the logical device, its queue and what hangs on it.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/vulkan/device.h"
#include "runtime/vulkan/handle.h"
#include "runtime/vulkan/instance.h"
#include "runtime/vulkan/memory.h"
#include "runtime/vulkan/pipeline_cache.h"
#include "runtime/vulkan/scratch_pool.h"

namespace tv {

/// Push constants that every device offers; longer parameters go to a parameter block.
inline constexpr uint32_t kPushBytes = 128;

/// A timeline semaphore's value to wait for or to signal.
struct TimelineValue {
  VkSemaphore semaphore = VK_NULL_HANDLE;
  uint64_t value = 0;
};

/// One of several command buffers that are submitted at a time: launches, or transfers of what they
/// read. Numbers are those of one `submit`, from 1; 0: none.
struct SubmitBatch {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  bool transfer = false;  ///< for the queue that copies, where the device has one
  uint64_t wait = 0;    ///< launches wait for transfers of this number, and transfers for launches
  uint64_t signal = 0;  ///< its own number; launches and transfers each count up
  uint64_t after = 0;   ///< a submission that transfers wait for as well
};

/// What another interface keeps with a device.
class DeviceCompanion {
 public:
  virtual ~DeviceCompanion() = default;
};

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

  /// Hands `commands` to the queue and returns the number that `wait` takes; numbers are given in
  /// the order of submission. The work starts after `before` and ends with `after`, where given.
  /// Thread-safe.
  uint64_t submit(VkCommandBuffer commands, TimelineValue before = {}, TimelineValue after = {});
  /// The same of several, in an order in which none waits for a later one; the last is no transfer.
  /// `before` is for launches.
  uint64_t submit(std::span<const SubmitBatch> batches, TimelineValue before = {},
                  TimelineValue after = {});
  /// The number of the last submission.
  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  /// Waits for a submission, first by polling: short work ends before a thread could sleep.
  /// Even if it throws, the work has ended or the device is lost.
  void wait(uint64_t submission);
  /// False if the driver has no memory to say it.
  bool finished(uint64_t submission);
  /// Waits for all that was submitted so far; cheap where nothing is under way.
  void wait_submitted() { wait(submitted()); }
  /// The same where nothing may be thrown: what a lost device was doing is over.
  void settle(uint64_t submission) noexcept;
  void settle() noexcept { settle(submitted()); }
  void wait_idle();
  /// Binds memory to the sparse buffer, and waits. Only where `sparse_binding()`.
  void bind_sparse(VkBuffer buffer, const std::vector<VkSparseMemoryBind>& binds);
  bool sparse_binding() const { return physical_.sparse_binding; }

  /// A timeline semaphore at 0; `exportable` where vkGetSemaphoreFdKHR is to take it.
  OwnedSemaphore make_timeline(bool exportable = false);
  OwnedCommandPool make_command_pool(bool transfer = false);
  /// Throws Error(kUnsupported) if the queue has no timestamps.
  OwnedQueryPool make_timestamps(uint32_t count);

  /// What `make` returned at the first call; it goes before the device does. Thread-safe.
  DeviceCompanion& companion(const std::function<std::unique_ptr<DeviceCompanion>()>& make);

  /// The pipelines made on this device; they go before it does.
  PipelineCache& pipelines() { return pipelines_; }

  /// What calls borrow while they run: arenas, and on a device with copies of tensors the memory
  /// that these go through.
  ScratchPool& arenas() { return arenas_; }
  ScratchPool& uploads() { return uploads_; }
  ScratchPool& readbacks() { return readbacks_; }
  /// Where weights that are streamed pass through.
  ScratchPool& slots() { return slots_; }
  /// Frees what of them is not lent; false if there was nothing.
  bool free_idle_scratch() noexcept;
  MemoryCounter& memory() { return memory_; }
  const MemoryCounter& memory() const { return memory_; }

  /// Throws Error(kDevice) "[what] …" unless `result` is a success; remembers a lost device.
  void check(VkResult result, const char* what);
  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  void mark_lost();

 private:
  void wait_for(VkSemaphore semaphore, uint64_t value, const char* what);
  VkResult submit_batches(std::span<const SubmitBatch> batches, uint64_t number,
                          TimelineValue before, TimelineValue after);
  /// After transfers were submitted and what they wait for was not: lets them end.
  void release_transfers(uint64_t last) noexcept;

  PhysicalDevice physical_;
  MemoryCounter memory_;  // outlives what it counts
  DeviceApi api_;
  VkQueue queue_ = VK_NULL_HANDLE, transfer_queue_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  OwnedSemaphore timeline_;  ///< reaches n when submission n is done
  std::atomic<uint64_t> submitted_{0};
  /// Numbers of SubmitBatch, counted on over submissions: transfers and launches that are done. Of
  /// the device, as Mesa may touch a semaphore after what it signalled was waited for.
  OwnedSemaphore copied_, computed_;
  uint64_t batches_ = 0;  ///< those given so far; the queue's lock guards it
  OwnedPipelineLayout layout_;
  PipelineCache pipelines_;
  ScratchPool arenas_{*this, MemoryUse::kArena}, uploads_{*this, MemoryUse::kUpload},
      readbacks_{*this, MemoryUse::kReadback}, slots_{*this, MemoryUse::kSlots};
  std::once_flag companion_once_;
  std::unique_ptr<DeviceCompanion> companion_;
  std::atomic<bool> lost_{false};
};

}  // namespace tv

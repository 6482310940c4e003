// Submissions to the device's queues.

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "runtime/base/debug.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {
namespace {

/// One batch as Vulkan takes it; stays where it is while it is submitted.
struct VulkanBatch {
  static constexpr VkPipelineStageFlags kStages[3] = {VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                                      VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                                      VK_PIPELINE_STAGE_ALL_COMMANDS_BIT};
  std::array<VkSemaphore, 3> waits{}, signals{};  // Vulkan takes their first ones
  std::array<uint64_t, 3> wait_values{}, signal_values{};
  VkTimelineSemaphoreSubmitInfo values{};
  VkSubmitInfo info{};

  void wait(TimelineValue timeline) {
    if (timeline.semaphore == VK_NULL_HANDLE) return;
    waits.at(info.waitSemaphoreCount) = timeline.semaphore;
    wait_values.at(info.waitSemaphoreCount++) = timeline.value;
  }
  void signal(TimelineValue timeline) {
    if (timeline.semaphore == VK_NULL_HANDLE) return;
    signals.at(info.signalSemaphoreCount) = timeline.semaphore;
    signal_values.at(info.signalSemaphoreCount++) = timeline.value;
  }
  const VkSubmitInfo& complete(const VkCommandBuffer* commands) {
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.waitSemaphoreValueCount = info.waitSemaphoreCount;
    values.pWaitSemaphoreValues = wait_values.data();
    values.signalSemaphoreValueCount = info.signalSemaphoreCount;
    values.pSignalSemaphoreValues = signal_values.data();
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &values;
    info.commandBufferCount = 1;
    info.pCommandBuffers = commands;
    info.pWaitSemaphores = waits.data();
    info.pWaitDstStageMask = kStages;
    info.pSignalSemaphores = signals.data();
    return info;
  }
};

}  // namespace

uint64_t Device::submit(VkCommandBuffer commands, TimelineValue before, TimelineValue after) {
  const SubmitBatch one{.commands = commands};
  return submit({&one, 1}, before, after);
}

uint64_t Device::submit(std::span<const SubmitBatch> batches, TimelineValue before,
                        TimelineValue after) {
  if (lost() || loses_device()) check(VK_ERROR_DEVICE_LOST, "submit");
  VkResult result = VK_SUCCESS;
  uint64_t number = 0;
  {
    const std::lock_guard lock(queue_mutex_);
    number = submitted_.load(std::memory_order_relaxed) + 1;
    result = submit_batches(batches, number, before, after);
    if (result == VK_SUCCESS) submitted_.store(number, std::memory_order_release);
  }
  check(result, "submit");
  return number;
}

VkResult Device::submit_batches(std::span<const SubmitBatch> batches, uint64_t number,
                                TimelineValue before, TimelineValue after) {
  std::vector<VulkanBatch> made(batches.size());
  std::vector<VkSubmitInfo> launches, transfers;
  const uint64_t base = batches_;
  for (size_t i = 0; i < batches.size(); ++i) {
    const SubmitBatch& batch = batches[i];
    const auto& [awaited, signalled] =
        batch.transfer ? std::tie(computed_, copied_) : std::tie(copied_, computed_);
    if (batch.wait > 0) made[i].wait({awaited.get(), base + batch.wait});
    if (batch.after > 0) made[i].wait({timeline_.get(), batch.after});
    if (!batch.transfer) made[i].wait(std::exchange(before, {}));
    if (batch.signal > 0) made[i].signal({signalled.get(), base + batch.signal});
    batches_ = std::max(batches_, base + batch.signal);
    if (i + 1 == batches.size()) {
      made[i].signal({timeline_.get(), number});
      made[i].signal(after);
    }
    auto& queue = batch.transfer && transfer_queue_ ? transfers : launches;
    queue.push_back(made[i].complete(&batch.commands));
  }
  VkResult result = VK_SUCCESS;
  if (!transfers.empty()) {
    result = api_.vkQueueSubmit(transfer_queue_, static_cast<uint32_t>(transfers.size()),
                                transfers.data(), VK_NULL_HANDLE);
    if (result != VK_SUCCESS) return result;
  }
  result = api_.vkQueueSubmit(queue_, static_cast<uint32_t>(launches.size()), launches.data(),
                              VK_NULL_HANDLE);
  if (result != VK_SUCCESS && !transfers.empty()) release_transfers(batches_);
  return result;
}

void Device::release_transfers(uint64_t last) noexcept {
  VkSemaphoreSignalInfo signal{};
  signal.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
  signal.semaphore = computed_.get();
  signal.value = last;
  // Earlier launches signal lower numbers, so they have to be over. The queues' lock is held: what
  // goes wrong here is seen by the next that waits.
  const VkSemaphore timeline = timeline_.get();
  const uint64_t submitted = submitted_.load(std::memory_order_relaxed);
  VkSemaphoreWaitInfo wait{};
  wait.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  wait.semaphoreCount = 1;
  wait.pSemaphores = &timeline;
  wait.pValues = &submitted;
  if (api_.vkWaitSemaphores(api_.device, &wait, UINT64_MAX) != VK_SUCCESS) return;
  if (api_.vkSignalSemaphore(api_.device, &signal) == VK_SUCCESS)
    api_.vkQueueWaitIdle(transfer_queue_);
}

}  // namespace tv

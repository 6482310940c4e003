#include "runtime/vulkan/timestamps.h"

namespace tv {

Timestamps::Timestamps(Device& device, uint32_t count) : device_(&device), count_(count) {
  if (device.profile().is_cpu()) return;
  const InstanceApi& instance = Instance::get().api();
  const PhysicalDevice& physical = device.physical();
  uint32_t families = 0;
  instance.vkGetPhysicalDeviceQueueFamilyProperties(physical.handle, &families, nullptr);
  std::vector<VkQueueFamilyProperties> queues(families);
  instance.vkGetPhysicalDeviceQueueFamilyProperties(physical.handle, &families, queues.data());
  VkPhysicalDeviceProperties properties{};
  instance.vkGetPhysicalDeviceProperties(physical.handle, &properties);
  valid_bits_ = queues.at(physical.queue_family).timestampValidBits;
  period_ns_ = properties.limits.timestampPeriod;
  if (valid_bits_ == 0 || period_ns_ <= 0) return;
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = count;
  VkQueryPool pool = VK_NULL_HANDLE;
  const DeviceApi& api = device.api();
  device.check(api.vkCreateQueryPool(api.device, &info, nullptr, &pool), "timestamps");
  pool_ = OwnedQueryPool(api, pool);
}

void Timestamps::reset(VkCommandBuffer commands) {
  device_->api().vkCmdResetQueryPool(commands, pool_.get(), 0, count_);
}

void Timestamps::write(VkCommandBuffer commands, uint32_t index) {
  device_->api().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_.get(),
                                     index);
}

std::vector<double> Timestamps::read_us(uint32_t count) const {
  std::vector<uint64_t> ticks(count);
  const DeviceApi& api = device_->api();
  device_->check(api.vkGetQueryPoolResults(api.device, pool_.get(), 0, count,
                                           count * sizeof(uint64_t), ticks.data(), sizeof(uint64_t),
                                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                 "timestamps");
  const uint64_t mask = valid_bits_ >= 64 ? ~uint64_t{0} : (uint64_t{1} << valid_bits_) - 1;
  std::vector<double> us;
  for (const uint64_t t : ticks) {
    us.push_back(static_cast<double>((t - ticks[0]) & mask) * period_ns_ / 1000);
  }
  return us;
}

}  // namespace tv

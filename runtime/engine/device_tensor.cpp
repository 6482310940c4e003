#include "runtime/engine/device_tensor.h"

#include <cstring>

#include "runtime/commands/recorder.h"
#include "runtime/vulkan/device_impl.h"
#include "runtime/vulkan/memory.h"

namespace tv {

struct DeviceTensor::Memory {
  std::shared_ptr<Device> device;  // outlives the allocation
  Allocation allocation;
  int64_t size_bytes = 0;
};

DeviceTensor::DeviceTensor(std::shared_ptr<Device> device, int64_t size_bytes)
    : memory_(std::make_unique<Memory>()) {
  memory_->device = std::move(device);
  memory_->size_bytes = size_bytes;
  Device& on = *memory_->device;
  memory_->allocation = Allocation(on, size_bytes, MemoryUse::kDevice);
  if (!on.host_pointers()) clear();  // pages of the process are zeros
}

DeviceTensor::DeviceTensor(DeviceTensor&& other) noexcept = default;
DeviceTensor& DeviceTensor::operator=(DeviceTensor&& other) noexcept = default;
DeviceTensor::~DeviceTensor() = default;

void DeviceTensor::clear() {
  Device& on = *memory_->device;
  if (on.host_pointers()) {
    std::memset(memory_->allocation.host(), 0, static_cast<size_t>(memory_->size_bytes));
    return;
  }
  run_once(on, [&](VkCommandBuffer commands) {
    on.api().vkCmdFillBuffer(commands, memory_->allocation.buffer(), 0, VK_WHOLE_SIZE, 0);
    record_barrier(on, commands, kCopyWrites, kShaderAccess);
  });
}

HostTensor DeviceTensor::tensor() const {
  const Allocation& memory = memory_->allocation;
  if (memory_->device->host_pointers()) return {memory.host(), memory_->size_bytes};
  return {nullptr, memory_->size_bytes, memory.address()};
}

}  // namespace tv

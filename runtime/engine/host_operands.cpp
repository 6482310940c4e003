#include "runtime/engine/host_operands.h"

#include <cstring>

#include "runtime/commands/recorder.h"
#include "runtime/engine/tensor_check.h"

namespace tv {

HostOperands::HostOperands(const EngineParts& parts)
    : parts_(parts),
      device_(*parts.device),
      bounces_(parts.spec.inputs.size() + parts.spec.outputs.size()) {}

void HostOperands::reserve(const ShapePlan& plan) {
  if (device_.host_pointers()) return;
  const size_t inputs = plan.input_bytes.size();
  const int64_t first_output =
      inputs < plan.copy_offsets.size() ? plan.copy_offsets[inputs] : plan.arena_bytes;
  const int64_t in_bytes = first_output - plan.activation_bytes;
  const int64_t out_bytes = plan.readback_bytes;
  if (!upload_ || upload_.size_bytes() < in_bytes) {
    upload_ = Allocation(device_, in_bytes, MemoryUse::kUpload);
    ++generation_;
  }
  if (!readback_ || readback_.size_bytes() < out_bytes) {
    readback_ = Allocation(device_, out_bytes, MemoryUse::kReadback);
    ++generation_;
  }
}

void HostOperands::bind(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs,
                        const ShapePlan& plan, uint64_t arena, std::vector<uint64_t>& bound) {
  bound.clear();
  if (!device_.host_pointers()) {
    const int64_t first = plan.copy_offsets.empty() ? 0 : plan.copy_offsets[0];
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].size_bytes == 0) continue;
      std::memcpy(static_cast<char*>(upload_.host()) + (plan.copy_offsets[i] - first),
                  inputs[i].data, static_cast<size_t>(inputs[i].size_bytes));
    }
    upload_.flush();
    for (const int64_t offset : plan.copy_offsets) {
      bound.push_back(arena + static_cast<uint64_t>(offset));
    }
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t address = host_address(inputs[i]);
    if (address % kTensorAlignment == 0) {
      bound.push_back(address);
      continue;
    }
    bound.push_back(bounce(i, inputs[i]));
    std::memcpy(bounces_[i].host(), inputs[i].data, static_cast<size_t>(inputs[i].size_bytes));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint64_t address = host_address(outputs[i]);
    bound.push_back(address % kTensorAlignment == 0 ? address
                                                    : bounce(inputs.size() + i, outputs[i]));
  }
}

uint64_t HostOperands::bounce(size_t slot, const HostTensor& tensor) {
  Allocation& memory = bounces_[slot];
  if (memory.size_bytes() < tensor.size_bytes) {
    memory = Allocation(device_, tensor.size_bytes, MemoryUse::kDevice);
  }
  return memory.address();
}

bool HostOperands::record_copies_in(VkCommandBuffer commands, const ShapePlan& plan,
                                    const Allocation& arena) {
  if (device_.host_pointers()) return false;
  std::vector<VkBufferCopy> regions;
  for (size_t i = 0; i < plan.input_bytes.size(); ++i) {
    if (plan.input_bytes[i] == 0) continue;
    regions.push_back({static_cast<VkDeviceSize>(plan.copy_offsets[i] - plan.copy_offsets[0]),
                       static_cast<VkDeviceSize>(plan.copy_offsets[i]),
                       static_cast<VkDeviceSize>(plan.input_bytes[i])});
  }
  if (regions.empty()) return false;
  device_.api().vkCmdCopyBuffer(commands, upload_.buffer(), arena.buffer(),
                                static_cast<uint32_t>(regions.size()), regions.data());
  return true;
}

void HostOperands::record_copies_out(VkCommandBuffer commands, const ShapePlan& plan,
                                     const Allocation& arena) {
  if (device_.host_pointers()) {
    record_barrier(device_, commands, kShaderWrites, kHostReads);
    return;
  }
  std::vector<VkBufferCopy> regions;
  for (const ShapePlan::Result& result : plan.results) {
    regions.push_back({static_cast<VkDeviceSize>(result.arena_at),
                       static_cast<VkDeviceSize>(result.host_at),
                       static_cast<VkDeviceSize>(result.bytes)});
  }
  if (regions.empty()) return;
  record_barrier(device_, commands, kShaderWrites, kCopyReads);
  device_.api().vkCmdCopyBuffer(commands, arena.buffer(), readback_.buffer(),
                                static_cast<uint32_t>(regions.size()), regions.data());
  record_barrier(device_, commands, kCopyWrites, kHostReads);
}

void HostOperands::read_results(std::span<const HostTensor> inputs,
                                std::span<const HostTensor> outputs, const ShapePlan& plan,
                                std::span<const uint64_t> bound) {
  const auto tensor = [&](size_t slot) {
    return slot < inputs.size() ? inputs[slot] : outputs[slot - inputs.size()];
  };
  if (!device_.host_pointers()) {
    readback_.invalidate();
    for (const ShapePlan::Result& result : plan.results) {
      std::memcpy(tensor(result.slot).data, static_cast<char*>(readback_.host()) + result.host_at,
                  static_cast<size_t>(result.bytes));
    }
    return;
  }
  for (size_t slot = 0; slot < bound.size(); ++slot) {
    const HostTensor to = tensor(slot);
    if (!is_written(parts_.spec, slot) || to.size_bytes == 0) continue;
    if (bound[slot] == reinterpret_cast<uint64_t>(to.data)) continue;
    std::memcpy(to.data, bounces_[slot].host(), static_cast<size_t>(to.size_bytes));
  }
}

}  // namespace tv

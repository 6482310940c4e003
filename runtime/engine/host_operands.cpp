#include "runtime/engine/host_operands.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/commands/recorder.h"
#include "runtime/engine/tensor_check.h"

namespace tv {
namespace {

void gather(std::span<const HostTensor> pieces, void* to) {
  auto* at = static_cast<char*>(to);
  for (const HostTensor& piece : pieces) {
    if (piece.size_bytes > 0) std::memcpy(at, piece.data, static_cast<size_t>(piece.size_bytes));
    at += piece.size_bytes;
  }
}

void scatter(const void* from, std::span<const HostTensor> pieces) {
  const auto* at = static_cast<const char*>(from);
  for (const HostTensor& piece : pieces) {
    if (piece.size_bytes > 0) std::memcpy(piece.data, at, static_cast<size_t>(piece.size_bytes));
    at += piece.size_bytes;
  }
}

/// Whether kernels get a stand-in for a tensor: an empty one has an address of its own.
bool is_bounced(const HostTensors& tensors, size_t i) {
  if (tensors.size_bytes(i) == 0) return false;
  return tensors.in_pieces() || host_address(tensors.whole(i)) % kTensorAlignment != 0;
}

}  // namespace

HostOperands::HostOperands(const EngineParts& parts)
    : parts_(parts),
      device_(*parts.device),
      upload_(device_.uploads()),
      readback_(device_.readbacks()),
      bounces_(parts.spec.inputs.size() + parts.spec.outputs.size()) {}

void HostOperands::borrow(const ShapePlan& plan, const CallStream& stream) {
  if (device_.host_pointers()) return;
  const size_t inputs = plan.input_bytes.size();
  const int64_t first_output =
      inputs < plan.copy_offsets.size() ? plan.copy_offsets[inputs] : plan.arena_bytes;
  const int64_t in_bytes = first_output - plan.activation_bytes;
  if (in_bytes > 0) upload_.borrow(in_bytes, stream);
  if (plan.readback_bytes > 0) readback_.borrow(plan.readback_bytes, stream);
}

void HostOperands::give_back() noexcept {
  upload_.give_back();
  readback_.give_back();
}

void HostOperands::bind(const HostTensors& inputs, const HostTensors& outputs,
                        const ShapePlan& plan, uint64_t arena, std::vector<uint64_t>& bound) {
  bound.clear();
  if (!device_.host_pointers()) {
    stage(inputs, outputs, plan, arena, bound);
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    bound.push_back(address_of(inputs, i, i));
    if (is_bounced(inputs, i)) gather(inputs[i], bounces_[i].host());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    bound.push_back(address_of(outputs, i, inputs.size() + i));
  }
}

void HostOperands::stage(const HostTensors& inputs, const HostTensors& outputs,
                         const ShapePlan& plan, uint64_t arena, std::vector<uint64_t>& bound) {
  const int64_t first = plan.copy_offsets.empty() ? 0 : plan.copy_offsets[0];
  on_device_.clear();
  for (size_t slot = 0; slot < plan.copy_offsets.size(); ++slot) {
    const bool is_input = slot < inputs.size();
    const HostTensors& tensors = is_input ? inputs : outputs;
    const size_t i = is_input ? slot : slot - inputs.size();
    const std::span<const HostTensor> pieces = tensors[i];
    const uint64_t on_device = pieces.size() == 1 ? pieces[0].device_address : 0;
    on_device_.push_back(on_device != 0);
    bound.push_back(on_device ? on_device : arena + static_cast<uint64_t>(plan.copy_offsets[slot]));
    if (!is_input || on_device) continue;
    gather(pieces, static_cast<char*>(upload_.memory().host()) + (plan.copy_offsets[slot] - first));
  }
  upload_.memory().flush();
}

bool HostOperands::writes_in_place() const {
  for (size_t i = 0; i < parts_.spec.inputs.size(); ++i) {
    if (parts_.spec.inputs[i].written && (device_.host_pointers() || on_device_[i])) return true;
  }
  return false;
}

uint64_t HostOperands::address_of(const HostTensors& tensors, size_t i, size_t slot) {
  if (!is_bounced(tensors, i)) return host_address(tensors.whole(i));
  Allocation& memory = bounces_[slot];
  if (memory.size_bytes() < tensors.size_bytes(i)) {
    memory = Allocation(device_, tensors.size_bytes(i), MemoryUse::kDevice);
  }
  return memory.address();
}

bool HostOperands::record_copies_in(VkCommandBuffer commands, const ShapePlan& plan,
                                    const Allocation& arena) {
  if (device_.host_pointers()) return false;
  std::vector<VkBufferCopy> regions;
  for (size_t i = 0; i < plan.input_bytes.size(); ++i) {
    if (plan.input_bytes[i] == 0 || on_device_[i]) continue;
    regions.push_back({static_cast<VkDeviceSize>(plan.copy_offsets[i] - plan.copy_offsets[0]),
                       static_cast<VkDeviceSize>(plan.copy_offsets[i]),
                       static_cast<VkDeviceSize>(plan.input_bytes[i])});
  }
  if (regions.empty()) return false;
  device_.api().vkCmdCopyBuffer(commands, upload_.memory().buffer(), arena.buffer(),
                                static_cast<uint32_t>(regions.size()), regions.data());
  return true;
}

void HostOperands::record_copies_out(VkCommandBuffer commands, const ShapePlan& plan,
                                     const Allocation& arena) {
  if (device_.host_pointers()) {
    record_barrier(device_, commands, kShaderWrites, kHostReads);
    return;
  }
  if (std::find(on_device_.begin(), on_device_.end(), true) != on_device_.end()) {
    record_barrier(device_, commands, kShaderWrites, kShaderAccess);  // the next call reads them
  }
  std::vector<VkBufferCopy> regions;
  for (const ShapePlan::Result& result : plan.results) {
    if (on_device_[result.slot]) continue;
    regions.push_back({static_cast<VkDeviceSize>(result.arena_at),
                       static_cast<VkDeviceSize>(result.host_at),
                       static_cast<VkDeviceSize>(result.bytes)});
  }
  if (regions.empty()) return;
  record_barrier(device_, commands, kShaderWrites, kCopyReads);
  device_.api().vkCmdCopyBuffer(commands, arena.buffer(), readback_.memory().buffer(),
                                static_cast<uint32_t>(regions.size()), regions.data());
  record_barrier(device_, commands, kCopyWrites, kHostReads);
}

void HostOperands::read_results(const HostTensors& inputs, const HostTensors& outputs,
                                const ShapePlan& plan, std::span<const uint64_t> bound) {
  const auto of_slot = [&](size_t slot) {
    const bool input = slot < inputs.size();
    return std::pair<const HostTensors&, size_t>(input ? inputs : outputs,
                                                 input ? slot : slot - inputs.size());
  };
  if (!device_.host_pointers()) {
    readback_.memory().invalidate();
    for (const ShapePlan::Result& result : plan.results) {
      if (on_device_[result.slot]) continue;
      const auto [tensors, i] = of_slot(result.slot);
      scatter(static_cast<char*>(readback_.memory().host()) + result.host_at, tensors[i]);
    }
    return;
  }
  for (size_t slot = 0; slot < bound.size(); ++slot) {
    const auto [tensors, i] = of_slot(slot);
    if (is_written(parts_.spec, slot) && is_bounced(tensors, i)) {
      scatter(bounces_[slot].host(), tensors[i]);
    }
  }
}

}  // namespace tv

#include "runtime/weight_set.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/error.h"
#include "runtime/memory_plan.h"
#include "runtime/recorder.h"

namespace tv {
namespace {

std::atomic<uint64_t> next_id{1};

void check_weights(const EngineSpec& spec, std::span<const HostTensor> weights) {
  const std::string prefix = "[" + (spec.name.empty() ? "engine" : spec.name) + "] ";
  if (weights.size() != spec.weights.size()) {
    throw Error(ErrorKind::kUser, prefix + "got " + std::to_string(weights.size()) +
                                      " weights, want " + std::to_string(spec.weights.size()));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const Binding& binding = spec.weights[i];
    const int64_t want = product(binding.shape).constant().value_or(-1) * size_bytes(binding.dtype);
    if (weights[i].size_bytes != want || (want > 0 && !weights[i].data)) {
      throw Error(ErrorKind::kUser, prefix + "weight \"" + binding.name + "\": got " +
                                        std::to_string(weights[i].size_bytes) + " bytes, want " +
                                        std::to_string(want));
    }
  }
}

/// Runs what `record` records, once, and waits.
template <typename Record>
void run_once(Device& device, const Record& record) {
  const OwnedCommandPool pool = device.make_command_pool();
  const OwnedFence fence = device.make_fence();
  const VkCommandBuffer commands = allocate_commands(device, pool.get());
  begin_commands(device, commands);
  record(commands);
  end_commands(device, commands);
  device.submit(commands, fence.get());
  device.wait_and_reset(fence.get());
}

std::vector<bool> read_by_dispatches(const EngineSpec& spec) {
  std::vector<bool> read(spec.buffers.size(), false);
  for (const Dispatch& d : spec.dispatches) {
    for (const OperandRange& operand : d.operands) read[operand.buffer] = true;
  }
  return read;
}

/// Copies to device memory in pieces through one staging buffer.
void upload(Device& device, const Allocation& dst, const HostTensor& src,
            const Allocation& staging) {
  for (int64_t at = 0; at < src.size_bytes; at += staging.size_bytes()) {
    const int64_t piece = std::min(staging.size_bytes(), src.size_bytes - at);
    std::memcpy(staging.host(), static_cast<const char*>(src.data) + at,
                static_cast<size_t>(piece));
    staging.flush();
    run_once(device, [&](VkCommandBuffer commands) {
      const VkBufferCopy region{0, static_cast<VkDeviceSize>(at), static_cast<VkDeviceSize>(piece)};
      device.api().vkCmdCopyBuffer(commands, staging.buffer(), dst.buffer(), 1, &region);
      record_barrier(device, commands, kCopyWrites, kShaderAccess);
    });
  }
}

}  // namespace

WeightSet::WeightSet(const EngineParts& engine, std::span<const HostTensor> weights)
    : device_(engine.device), engine_id_(engine.id), id_(next_id++) {
  const EngineSpec& spec = engine.spec;
  check_weights(spec, weights);
  addresses_.resize(spec.buffers.size());
  allocations_.resize(spec.buffers.size());
  const std::vector<bool> kept = read_by_dispatches(spec);
  place_weights(spec, weights);
  run_program(engine, kept);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (kept[b]) continue;
    allocations_[b] = Allocation();
    addresses_[b] = 0;
  }
}

void WeightSet::place_weights(const EngineSpec& spec, std::span<const HostTensor> weights) {
  constexpr int64_t kStagingBytes = 32 << 20;
  Allocation staging;
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const Buffer& buffer = spec.buffers[b];
    if (buffer.kind != BufferKind::kWeight) continue;
    const HostTensor& weight = weights[buffer.index];
    if (device_->host_pointers() && reinterpret_cast<uintptr_t>(weight.data) % 16 == 0) {
      addresses_[b] = reinterpret_cast<uint64_t>(weight.data);
      continue;
    }
    allocations_[b] = Allocation(*device_, weight.size_bytes, MemoryUse::kDevice);
    addresses_[b] = allocations_[b].address();
    if (device_->host_pointers()) {
      std::memcpy(allocations_[b].host(), weight.data, static_cast<size_t>(weight.size_bytes));
      continue;
    }
    if (!staging) staging = Allocation(*device_, kStagingBytes, MemoryUse::kUpload);
    upload(*device_, allocations_[b], weight, staging);
  }
}

void WeightSet::run_program(const EngineParts& engine, const std::vector<bool>& kept) {
  const EngineSpec& spec = engine.spec;
  std::vector<BufferLifetime> lifetimes;
  std::vector<size_t> temporaries;
  std::vector<Placement> placements(spec.buffers.size());
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    placements[b] = {static_cast<uint32_t>(b + 1), 0};
    if (spec.buffers[b].kind != BufferKind::kPersistent) continue;
    const int64_t size = spec.buffers[b].size_bytes.constant().value_or(0);
    if (kept[b]) {
      allocations_[b] = Allocation(*device_, size, MemoryUse::kDevice);
      addresses_[b] = allocations_[b].address();
      continue;
    }
    BufferLifetime life{size, INT32_MAX, -1};
    for (size_t d = 0; d < spec.weight_program.size(); ++d) {
      for (const OperandRange& operand : spec.weight_program[d].operands) {
        if (operand.buffer != b) continue;
        life.first = std::min(life.first, static_cast<int32_t>(d));
        life.last = static_cast<int32_t>(d);
      }
    }
    if (life.last < 0) continue;
    lifetimes.push_back(life);
    temporaries.push_back(b);
  }
  if (spec.weight_program.empty()) return;

  const MemoryPlan plan = plan_memory(lifetimes);
  const Allocation scratch(*device_, plan.total_bytes, MemoryUse::kDevice);
  for (size_t i = 0; i < temporaries.size(); ++i) {
    placements[temporaries[i]] = {0, plan.offsets[i]};
    addresses_[temporaries[i]] = scratch.address() + static_cast<uint64_t>(plan.offsets[i]);
  }
  const auto& max_grid = device_->profile().max_grid;
  EncodedProgram program = encode({.spec = spec,
                                   .program = spec.weight_program,
                                   .symbols = {},
                                   .placements = placements,
                                   .max_grid = {max_grid[0], max_grid[1], max_grid[2]},
                                   .modes = debug_modes()});
  if (program.dispatches.empty()) return;
  patch_addresses(program, addresses_);
  Allocation blocks;
  if (const int64_t bytes = param_block_bytes(program)) {
    blocks = Allocation(*device_, bytes, MemoryUse::kUpload);
  }
  run_once(*device_, [&](VkCommandBuffer commands) {
    record_dispatches(*device_, commands, program, engine.pipelines, blocks);
    record_barrier(*device_, commands, kShaderWrites, kShaderAccess);
  });
}

int64_t WeightSet::size_bytes() const {
  int64_t bytes = 0;
  for (const Allocation& a : allocations_) bytes += a.size_bytes();
  return bytes;
}

}  // namespace tv

#include "runtime/weight_set.h"

#include <algorithm>
#include <atomic>

#include "runtime/error.h"
#include "runtime/memory_plan.h"
#include "runtime/recorder.h"
#include "runtime/weight_upload.h"

namespace tv {
namespace {

constexpr int64_t kAlignment = 256;
constexpr uintptr_t kTensorAlignment = 16;  // what kernels may assume of a caller's tensor

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

std::vector<bool> read_by_dispatches(const EngineSpec& spec) {
  std::vector<bool> read(spec.buffers.size(), false);
  for (const Dispatch& d : spec.dispatches) {
    for (const OperandRange& operand : d.operands) read[operand.buffer] = true;
  }
  return read;
}

int64_t aligned_bytes(const Buffer& buffer) {
  const int64_t bytes = buffer.size_bytes.constant().value_or(0);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// First and last dispatch of the weight program that names `buffer`; last < 0: none.
BufferLifetime lifetime_of(const EngineSpec& spec, size_t buffer) {
  BufferLifetime life{aligned_bytes(spec.buffers[buffer]), INT32_MAX, -1};
  for (size_t d = 0; d < spec.weight_program.size(); ++d) {
    for (const OperandRange& operand : spec.weight_program[d].operands) {
      if (operand.buffer != buffer) continue;
      life.first = std::min(life.first, static_cast<int32_t>(d));
      life.last = static_cast<int32_t>(d);
    }
  }
  // A weight is uploaded before the first dispatch.
  if (spec.buffers[buffer].kind == BufferKind::kWeight) life.first = 0;
  return life;
}

}  // namespace

WeightSet::WeightSet(const EngineParts& engine, std::span<const HostTensor> weights)
    : device_(engine.device), engine_id_(engine.id), id_(next_id++) {
  const EngineSpec& spec = engine.spec;
  check_weights(spec, weights);
  addresses_.resize(spec.buffers.size());
  places_.resize(spec.buffers.size());
  std::vector<bool> device_side(spec.buffers.size(), false);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const Buffer& buffer = spec.buffers[b];
    device_side[b] = buffer.kind == BufferKind::kPersistent;
    if (buffer.kind != BufferKind::kWeight) continue;
    const auto data = reinterpret_cast<uintptr_t>(weights[buffer.index].data);
    device_side[b] = !device_->host_pointers() || data % kTensorAlignment != 0;
    if (!device_side[b]) addresses_[b] = data;
  }
  place_kept(spec, device_side);
  place_temporaries(spec, device_side);
  WeightUpload upload(*device_);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const Place& place = places_[b];
    if (!place.memory) continue;
    addresses_[b] = place.memory->address() + static_cast<uint64_t>(place.offset);
    if (spec.buffers[b].kind != BufferKind::kWeight) continue;
    const HostTensor& weight = weights[spec.buffers[b].index];
    upload.add(*place.memory, place.offset, weight.data, weight.size_bytes);
  }
  upload.finish();
  run_program(engine);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (places_[b].memory == &scratch_) addresses_[b] = 0;
  }
  places_.clear();
  scratch_ = Allocation();
}

void WeightSet::place_kept(const EngineSpec& spec, const std::vector<bool>& device_side) {
  // Few allocations, because drivers limit their number; not one, because they limit their size.
  constexpr int64_t kChunkBytes = int64_t{1} << 30;
  const std::vector<bool> read = read_by_dispatches(spec);
  std::vector<size_t> chunk;
  int64_t used = 0;
  const auto close_chunk = [&] {
    if (chunk.empty()) return;
    kept_.push_back(std::make_unique<Allocation>(*device_, used, MemoryUse::kDevice));
    for (const size_t b : chunk) places_[b].memory = kept_.back().get();
    chunk.clear();
    used = 0;
  };
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (!device_side[b] || !read[b]) continue;
    const int64_t bytes = aligned_bytes(spec.buffers[b]);
    if (used + bytes > kChunkBytes) close_chunk();
    places_[b].offset = used;
    used += bytes;
    chunk.push_back(b);
  }
  close_chunk();
}

void WeightSet::place_temporaries(const EngineSpec& spec, const std::vector<bool>& device_side) {
  std::vector<BufferLifetime> lifetimes;
  std::vector<size_t> temporaries;
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (!device_side[b] || places_[b].memory) continue;
    const BufferLifetime life = lifetime_of(spec, b);
    if (life.last < 0) continue;
    lifetimes.push_back(life);
    temporaries.push_back(b);
  }
  if (temporaries.empty()) return;
  const MemoryPlan plan = plan_memory(lifetimes, kAlignment);
  scratch_ = Allocation(*device_, plan.total_bytes, MemoryUse::kDevice);
  for (size_t i = 0; i < temporaries.size(); ++i) {
    places_[temporaries[i]] = {&scratch_, plan.offsets[i]};
  }
}

void WeightSet::run_program(const EngineParts& engine) const {
  const EngineSpec& spec = engine.spec;
  std::vector<Placement> placements(spec.buffers.size());
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const bool temporary = places_[b].memory == &scratch_;
    placements[b] =
        temporary ? Placement{0, places_[b].offset} : Placement{static_cast<uint32_t>(b + 1), 0};
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
  for (const auto& memory : kept_) bytes += memory->size_bytes();
  return bytes;
}

}  // namespace tv

#include "runtime/engine/weight_set.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "runtime/base/error.h"
#include "runtime/commands/recorder.h"
#include "runtime/engine/check_report.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/engine/tensor_check.h"
#include "runtime/engine/weight_upload.h"

namespace tv {
namespace {

std::atomic<uint64_t> next_id{1};

/// `needed` (by buffer; null: all) tells the weights whose bytes are read.
void check_weights(const EngineSpec& spec, std::span<const HostTensor> weights,
                   const std::vector<bool>* needed) {
  const std::string prefix = "[" + (spec.name.empty() ? "engine" : spec.name) + "] ";
  if (weights.size() != spec.weights.size()) {
    throw Error(ErrorKind::kUser, prefix + "got " + std::to_string(weights.size()) +
                                      " weights, want " + std::to_string(spec.weights.size()));
  }
  std::vector<bool> is_read(weights.size(), needed == nullptr);
  for (size_t b = 0; needed && b < spec.buffers.size(); ++b) {
    if ((*needed)[b]) is_read[spec.buffers[b].index] = true;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const Binding& binding = spec.weights[i];
    const int64_t want = product(binding.shape).constant().value_or(-1) * size_bytes(binding.dtype);
    if (weights[i].size_bytes != want || (want > 0 && is_read[i] && !weights[i].data)) {
      throw Error(ErrorKind::kUser, prefix + "weight \"" + binding.name + "\": got " +
                                        std::to_string(weights[i].size_bytes) + " bytes, want " +
                                        std::to_string(want));
    }
  }
}

int64_t aligned_bytes(const Buffer& buffer) {
  const int64_t bytes = buffer.size_bytes.constant().value_or(0);
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// First and last of the steps `run` that name `buffer`; last < 0: none.
BufferLifetime lifetime_of(const EngineSpec& spec, std::span<const uint32_t> run, size_t buffer) {
  BufferLifetime life{aligned_bytes(spec.buffers[buffer]), INT32_MAX, -1};
  for (size_t i = 0; i < run.size(); ++i) {
    for (const OperandRange& operand : spec.weight_program[run[i]].operands) {
      if (operand.buffer != buffer) continue;
      life.first = std::min(life.first, static_cast<int32_t>(i));
      life.last = static_cast<int32_t>(i);
    }
  }
  // A weight is uploaded before the first step.
  if (spec.buffers[buffer].kind == BufferKind::kWeight) life.first = 0;
  return life;
}

}  // namespace

/// What is known only while a set is made.
struct WeightSet::Making {
  const EngineSpec& spec;
  const WeightPlan& plan;
  std::vector<bool> device_side;              ///< fresh, and not in the caller's memory
  std::shared_ptr<const Allocation> scratch;  ///< of temporaries
};

WeightSet::WeightSet(const EngineParts& engine, std::span<const HostTensor> weights,
                     WeightSource source)
    : device_(engine.device), engine_id_(engine.id), id_(next_id++) {
  check_weights(engine.spec, weights, nullptr);
  make(engine, plan_all_weights(engine.spec), nullptr, weights, source);
}

WeightSet::WeightSet(const EngineParts& engine, const WeightSet& old,
                     std::span<const HostTensor> weights, std::span<const uint32_t> changed,
                     WeightSource source)
    : device_(engine.device), engine_id_(engine.id), id_(next_id++) {
  const EngineSpec& spec = engine.spec;
  for (const uint32_t weight : changed) {
    if (weight >= spec.weights.size())
      throw Error(ErrorKind::kInternal, "[" + spec.name + "] a changed weight is out of range");
  }
  const WeightPlan plan = old.plan_change(spec, changed);
  check_weights(spec, weights, device_->host_pointers() ? nullptr : &plan.needed);
  make(engine, plan, &old, weights, source);
}

WeightPlan WeightSet::plan_change(const EngineSpec& spec, std::span<const uint32_t> changed) const {
  // Memory that is shared is held whole: where most of it is of no more use, all is made again.
  constexpr int64_t kSlackBytes = 16 << 20;
  int64_t live_bytes = 0;
  for (size_t b = 0; b < places_.size(); ++b) {
    if (places_[b].memory) live_bytes += aligned_bytes(spec.buffers[b]);
  }
  if (!changed.empty() && held_bytes() > 2 * live_bytes + kSlackBytes)
    return plan_all_weights(spec);
  return plan_changed_weights(spec, changed);
}

void WeightSet::make(const EngineParts& engine, const WeightPlan& plan, const WeightSet* old,
                     std::span<const HostTensor> weights, WeightSource source) {
  const EngineSpec& spec = engine.spec;
  Making making{spec, plan, std::vector<bool>(spec.buffers.size(), false), nullptr};
  addresses_.resize(spec.buffers.size());
  places_.resize(spec.buffers.size());
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const bool shared = old && plan.kept[b] && !plan.fresh[b];
    if (shared) {
      places_[b] = old->places_[b];
      addresses_[b] = old->addresses_[b];
    }
    making.device_side[b] = plan.fresh[b];
    if (spec.buffers[b].kind != BufferKind::kWeight) continue;
    const uint64_t data = host_address(weights[spec.buffers[b].index]);
    const bool in_place =
        device_->host_pointers() && !source.on_cuda && data % kTensorAlignment == 0;
    making.device_side[b] = !in_place && (plan.fresh[b] || (plan.kept[b] && !places_[b].memory));
    if (!in_place) continue;
    places_[b] = {};
    addresses_[b] = data;
  }
  place_kept(making);
  place_temporaries(making);
  int64_t uploaded = 0;
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const bool is_copied = places_[b].memory && making.device_side[b];
    if (is_copied && spec.buffers[b].kind == BufferKind::kWeight)
      uploaded += weights[spec.buffers[b].index].size_bytes;
  }
  WeightUpload upload(*device_, source, uploaded);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const Place& place = places_[b];
    if (!place.memory || !making.device_side[b]) continue;
    addresses_[b] = place.memory->address() + static_cast<uint64_t>(place.offset);
    if (spec.buffers[b].kind != BufferKind::kWeight) continue;
    const HostTensor& weight = weights[spec.buffers[b].index];
    upload.add(*place.memory, place.offset, weight.data, weight.size_bytes);
  }
  upload.finish();
  run_program(engine, making);
  steps_run_ = plan.run.size();
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (!making.scratch || places_[b].memory != making.scratch) continue;
    places_[b] = {};
    addresses_[b] = 0;
  }
}

void WeightSet::place_kept(Making& making) {
  // Few allocations, because drivers limit their number; not one, because they limit their size.
  constexpr int64_t kChunkBytes = int64_t{1} << 30;
  std::vector<size_t> chunk;
  int64_t used = 0;
  const auto close_chunk = [&] {
    if (chunk.empty()) return;
    const auto memory = std::make_shared<Allocation>(*device_, used, MemoryUse::kWeights);
    for (const size_t b : chunk) places_[b].memory = memory;
    chunk.clear();
    used = 0;
  };
  for (size_t b = 0; b < making.spec.buffers.size(); ++b) {
    if (!making.device_side[b] || !making.plan.kept[b]) continue;
    const int64_t bytes = aligned_bytes(making.spec.buffers[b]);
    if (used + bytes > kChunkBytes) close_chunk();
    places_[b].offset = used;
    used += bytes;
    chunk.push_back(b);
  }
  close_chunk();
}

void WeightSet::place_temporaries(Making& making) {
  std::vector<BufferLifetime> lifetimes;
  std::vector<size_t> temporaries;
  for (size_t b = 0; b < making.spec.buffers.size(); ++b) {
    if (!making.device_side[b] || making.plan.kept[b]) continue;
    const BufferLifetime life = lifetime_of(making.spec, making.plan.run, b);
    if (life.last < 0) continue;
    lifetimes.push_back(life);
    temporaries.push_back(b);
  }
  if (temporaries.empty()) return;
  const MemoryPlan plan = plan_memory(lifetimes);
  making.scratch = std::make_shared<Allocation>(*device_, plan.total_bytes, MemoryUse::kWeights);
  for (size_t i = 0; i < temporaries.size(); ++i) {
    places_[temporaries[i]] = {making.scratch, plan.offsets[i]};
  }
}

void WeightSet::run_program(const EngineParts& engine, const Making& making) const {
  const EngineSpec& spec = engine.spec;
  std::vector<Placement> placements(spec.buffers.size());
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const bool temporary = making.scratch && places_[b].memory == making.scratch;
    placements[b] =
        temporary ? Placement{0, places_[b].offset} : Placement{static_cast<uint32_t>(b + 1), 0};
  }
  std::vector<Dispatch> steps;
  for (const uint32_t step : making.plan.run) steps.push_back(spec.weight_program[step]);
  const auto& max_grid = device_->profile().max_grid;
  EncodedProgram program = encode({.spec = spec,
                                   .program = steps,
                                   .symbols = {},
                                   .placements = placements,
                                   .max_grid = {max_grid[0], max_grid[1], max_grid[2]},
                                   .modes = debug_modes(),
                                   .guard_ranges = engine.guard.ranges});
  if (program.dispatches.empty()) return;
  std::vector<uint64_t> addresses = addresses_;
  Allocation check = make_check_buffer(*device_, spec);
  for (size_t b = 0; check && b < spec.buffers.size(); ++b) {
    if (spec.buffers[b].kind == BufferKind::kCheck) addresses[b] = check.address();
  }
  if (check) clear_check(check);
  patch_addresses(program, addresses);
  Allocation blocks;
  if (const int64_t bytes = param_block_bytes(program)) {
    blocks = Allocation(*device_, bytes, MemoryUse::kUpload);
  }
  const GuardMemory guard = make_guard_memory(*device_, engine.guard.on(), steps.size());
  if (guard) patch_guards(program, blocks.address(), guard);
  run_once(*device_, [&](VkCommandBuffer commands) {
    record_dispatches(*device_, commands, program, engine.pipelines, blocks);
    record_barrier(*device_, commands, kShaderWrites, kShaderAccess);
    if (check || guard) record_barrier(*device_, commands, kShaderWrites, kHostReads);
  });
  if (guard) throw_guard_report(guard, steps);
  if (check) throw_check_report(check, spec.weight_program);
}

int64_t WeightSet::held_bytes() const {
  std::set<const Allocation*> held;
  int64_t bytes = 0;
  for (const Place& place : places_) {
    if (place.memory && held.insert(place.memory.get()).second) bytes += place.memory->size_bytes();
  }
  return bytes;
}

}  // namespace tv

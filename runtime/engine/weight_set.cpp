#include "runtime/engine/weight_set.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
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
  return life;
}

constexpr int64_t kPartBytes = 256 << 20;  ///< of weights that are uploaded to be packed at a time

/// Of the buffers that a set keeps, by EngineSpec::buffers; else 0.
std::vector<int64_t> kept_bytes(const EngineSpec& spec, const WeightPlan& plan) {
  std::vector<int64_t> bytes(spec.buffers.size(), 0);
  for (size_t b = 0; b < bytes.size(); ++b) {
    if (plan.kept[b]) bytes[b] = aligned_bytes(spec.buffers[b]);
  }
  return bytes;
}

/// What may be kept on the device, before it was found out what it has memory for.
int64_t first_budget(const EngineParts& engine, const WeightPlan& plan,
                     std::span<const int64_t> bytes) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMostReserve = int64_t{1} << 30;  // for activations
  if (engine.weight_budget >= 0) return engine.weight_budget;
  const Device& device = *engine.device;
  const bool never = engine.weight_budget == kNoWeightStreaming || !has_own_memory(device);
  const std::optional<uint64_t> told = never ? std::nullopt : free_memory_bytes(device);
  if (!told) return kAll;
  const auto free = static_cast<int64_t>(std::min<uint64_t>(*told, kAll));
  const int64_t room = free - std::min(free / 8, kMostReserve);
  int64_t kept = 0, largest = 0, passing = 0;
  for (size_t b = 0; b < bytes.size(); ++b) {
    kept += bytes[b];
    largest = std::max(largest, bytes[b]);
    const bool temporary = plan.fresh[b] && !plan.kept[b];
    if (temporary) passing += aligned_bytes(engine.spec.buffers[b]);
  }
  const int64_t part = std::min(passing, kPartBytes + largest);
  if (kept + part <= room) return kAll;
  return std::max<int64_t>(room - part - slot_bytes_at_most(bytes), 0);
}

}  // namespace

/// What is known only while a set is made.
struct WeightSet::Making {
  const EngineSpec& spec;
  const WeightPlan& plan;
  std::span<const HostTensor> weights;
  WeightSource source;
  int64_t part_bytes = 0;                          ///< of weights that are uploaded at a time
  std::vector<bool> device_side = {};              ///< fresh, and not in the caller's memory
  std::shared_ptr<const Allocation> scratch = {};  ///< of temporaries
  /// Where the parts begin that the program is run in, numbers into `plan.run`: a part's weights
  /// are uploaded before it.
  std::vector<size_t> parts = {};
  int64_t uploaded_bytes = 0;             ///< of all parts' weights
  std::vector<size_t> uploaded_for = {};  ///< by buffer: the step before which a temporary comes
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
  const WeightMemory held = memory();
  if (!changed.empty() && held.device + held.host > 2 * live_bytes + kSlackBytes)
    return plan_all_weights(spec);
  return plan_changed_weights(spec, changed);
}

void WeightSet::make(const EngineParts& engine, const WeightPlan& plan, const WeightSet* old,
                     std::span<const HostTensor> weights, WeightSource source) {
  const EngineSpec& spec = engine.spec;
  const std::vector<int64_t> bytes = kept_bytes(spec, plan);
  const int64_t budget = first_budget(engine, plan, bytes);
  const bool automatic = engine.weight_budget == kAutoWeightBudget;
  const bool may_stream = automatic ? has_own_memory(*device_) : engine.weight_budget >= 0;
  streamed_ = old ? old->streamed_ : choose_streamed(spec, bytes, budget);
  for (int64_t part_bytes = kPartBytes;;) {
    Making making{
        .spec = spec, .plan = plan, .weights = weights, .source = source, .part_bytes = part_bytes};
    try {
      make_streamed(engine, making, old);
      break;
    } catch (const OutOfMemoryError&) {
      if (!may_stream || device_->lost()) throw;
      const bool more = stream_more(engine, making, bytes);
      const bool smaller = making.uploaded_bytes > 0 && part_bytes > 0;
      if (!more && !smaller) throw;
      if (smaller) part_bytes = std::min(part_bytes, making.uploaded_bytes) / 2;
    }
  }
  if (automatic && stream_ && !old) say_streamed(engine);
}

void WeightSet::say_streamed(const EngineParts& engine) const {
  const WeightMemory held = memory();
  const auto mebibytes = [](int64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; };
  log(LogLevel::kWarn, "[" + engine.spec.name + "] " + device_->profile().name +
                           " has no memory for all weights: " + mebibytes(held.host) +
                           " stay in host memory and are copied at each call, which takes time; " +
                           mebibytes(held.device) + " are kept (the setting weight_budget)");
}

bool WeightSet::stream_more(const EngineParts& engine, const Making& making,
                            std::span<const int64_t> bytes) {
  std::vector<int64_t> kept(bytes.begin(), bytes.end());
  for (size_t b = 0; b < kept.size(); ++b) {
    if (streamed_[b] || !making.plan.fresh[b]) kept[b] = 0;
  }
  const int64_t all = std::reduce(kept.begin(), kept.end(), int64_t{0});
  if (all == 0) return false;
  const std::vector<bool> more = choose_streamed(engine.spec, kept, all / 2);
  for (size_t b = 0; b < more.size(); ++b) streamed_[b] = streamed_[b] || more[b];
  return true;
}

void WeightSet::make_streamed(const EngineParts& engine, Making& making, const WeightSet* old) {
  const EngineSpec& spec = engine.spec;
  share(making, old);
  place_kept(making);
  place_temporaries(making);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const Place& place = places_[b];
    if (place.memory && making.device_side[b])
      addresses_[b] = place.memory->address() + static_cast<uint64_t>(place.offset);
  }
  const std::span<const uint32_t> run = making.plan.run;
  for (size_t part = 0; part < making.parts.size(); ++part) {
    const size_t first = making.parts[part];
    const size_t end = part + 1 < making.parts.size() ? making.parts[part + 1] : run.size();
    upload(making, first, end);
    run_program(engine, making, run.subspan(first, end - first));
  }
  made_by_ = device_->submitted();
  steps_run_ = run.size();
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (!making.scratch || places_[b].memory != making.scratch) continue;
    places_[b] = {};
    addresses_[b] = 0;
  }
  stream_.reset();
  if (std::ranges::find(streamed_, true) == streamed_.end()) return;
  const bool same = old && old->stream_ && old->streamed_ == streamed_;
  stream_ = same ? old->stream_
                 : std::make_shared<const StreamPlan>(
                       plan_stream(spec, kept_bytes(spec, making.plan), streamed_));
}

void WeightSet::share(Making& making, const WeightSet* old) {
  const EngineSpec& spec = making.spec;
  const WeightPlan& plan = making.plan;
  making.device_side.assign(spec.buffers.size(), false);
  addresses_.assign(spec.buffers.size(), 0);
  places_.assign(spec.buffers.size(), {});
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const bool shared = old && plan.kept[b] && !plan.fresh[b];
    if (shared) {
      places_[b] = old->places_[b];
      addresses_[b] = old->addresses_[b];
    }
    making.device_side[b] = plan.fresh[b];
    if (spec.buffers[b].kind != BufferKind::kWeight) continue;
    const uint64_t data = host_address(making.weights[spec.buffers[b].index]);
    const bool in_place = device_->host_pointers() && !making.source.on_cuda && !streamed_[b] &&
                          data % kTensorAlignment == 0;
    making.device_side[b] = !in_place && (plan.fresh[b] || (plan.kept[b] && !places_[b].memory));
    if (!in_place) continue;
    places_[b] = {};
    addresses_[b] = data;
  }
}

void WeightSet::place_kept(Making& making) {
  // Few allocations, because drivers limit their number; not one, because they limit their size.
  constexpr int64_t kChunkBytes = int64_t{1} << 30;
  for (const bool on_host : {false, true}) {
    std::vector<size_t> chunk;
    int64_t used = 0;
    const auto close_chunk = [&] {
      if (chunk.empty()) return;
      const auto memory = std::make_shared<Allocation>(
          *device_, used, on_host ? MemoryUse::kHostWeights : MemoryUse::kWeights);
      for (const size_t b : chunk) places_[b].memory = memory;
      chunk.clear();
      used = 0;
    };
    for (size_t b = 0; b < making.spec.buffers.size(); ++b) {
      if (!making.device_side[b] || !making.plan.kept[b] || streamed_[b] != on_host) continue;
      const int64_t bytes = aligned_bytes(making.spec.buffers[b]);
      if (used + bytes > kChunkBytes) close_chunk();
      places_[b].offset = used;
      used += bytes;
      chunk.push_back(b);
    }
    close_chunk();
  }
}

void WeightSet::place_temporaries(Making& making) {
  making.parts = {0};
  making.uploaded_for.assign(making.spec.buffers.size(), 0);
  std::vector<BufferLifetime> lifetimes(making.spec.buffers.size(), BufferLifetime{0, 0, -1});
  std::vector<std::pair<int32_t, size_t>> uploads;  // first step, temporary
  for (size_t b = 0; b < making.spec.buffers.size(); ++b) {
    if (!making.device_side[b] || making.plan.kept[b]) continue;
    lifetimes[b] = lifetime_of(making.spec, making.plan.run, b);
    const bool is_weight = making.spec.buffers[b].kind == BufferKind::kWeight;
    if (is_weight && lifetimes[b].last >= 0) uploads.emplace_back(lifetimes[b].first, b);
  }
  // What is uploaded to be packed is not there all at once: the device may have no room for it.
  std::ranges::sort(uploads);
  int64_t bytes = 0;
  for (const auto& [first, b] : uploads) {
    const auto step = static_cast<size_t>(first);
    making.uploaded_bytes += lifetimes[b].size_bytes;
    if (bytes + lifetimes[b].size_bytes > making.part_bytes && step > making.parts.back()) {
      making.parts.push_back(step);
      bytes = 0;
    }
    bytes += lifetimes[b].size_bytes;
    making.uploaded_for[b] = making.parts.back();
    lifetimes[b].first = static_cast<int32_t>(making.parts.back());
  }
  std::vector<BufferLifetime> planned;
  std::vector<size_t> temporaries;
  for (size_t b = 0; b < lifetimes.size(); ++b) {
    if (lifetimes[b].last < 0) continue;
    planned.push_back(lifetimes[b]);
    temporaries.push_back(b);
  }
  if (temporaries.empty()) return;
  const MemoryPlan plan = plan_memory(planned);
  making.scratch = std::make_shared<Allocation>(*device_, plan.total_bytes, MemoryUse::kWeights);
  for (size_t i = 0; i < temporaries.size(); ++i) {
    places_[temporaries[i]] = {making.scratch, plan.offsets[i]};
  }
}

void WeightSet::upload(Making& making, size_t first, size_t end) {
  const EngineSpec& spec = making.spec;
  std::vector<size_t> copied;
  int64_t bytes = 0;
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const bool is_copied = places_[b].memory && making.device_side[b];
    if (!is_copied || spec.buffers[b].kind != BufferKind::kWeight) continue;
    const size_t step = making.uploaded_for[b];
    if (step < first || (step >= end && step > first)) continue;
    copied.push_back(b);
    bytes += making.weights[spec.buffers[b].index].size_bytes;
  }
  WeightUpload upload(*device_, making.source, bytes);
  for (const size_t b : copied) {
    const HostTensor& weight = making.weights[spec.buffers[b].index];
    upload.add(*places_[b].memory, places_[b].offset, weight.data, weight.size_bytes);
  }
  upload.finish();
}

void WeightSet::run_program(const EngineParts& engine, const Making& making,
                            std::span<const uint32_t> run) const {
  const EngineSpec& spec = engine.spec;
  std::vector<Placement> placements(spec.buffers.size());
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const bool temporary = making.scratch && places_[b].memory == making.scratch;
    placements[b] =
        temporary ? Placement{0, places_[b].offset} : Placement{static_cast<uint32_t>(b + 1), 0};
  }
  std::vector<Dispatch> steps;
  for (const uint32_t step : run) steps.push_back(spec.weight_program[step]);
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

WeightMemory WeightSet::memory() const {
  std::set<const Allocation*> held;
  WeightMemory memory;
  for (size_t b = 0; b < places_.size(); ++b) {
    const Allocation* const allocation = places_[b].memory.get();
    if (!allocation || !held.insert(allocation).second) continue;
    (streamed_[b] ? memory.host : memory.device) += allocation->size_bytes();
  }
  if (stream_) memory.slots = stream_->slot_bytes;
  return memory;
}

}  // namespace tv

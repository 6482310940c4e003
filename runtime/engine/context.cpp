#include "runtime/engine/context.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/commands/hazard_check.h"
#include "runtime/commands/submissions.h"
#include "runtime/engine/check_report.h"
#include "runtime/engine/tensor_check.h"

namespace tv {
namespace {

constexpr size_t kMaxRecordings = 16;

bool overlaps_external(const std::vector<uint64_t>& bound, const ShapePlan& plan,
                       const EngineSpec& spec) {
  const size_t inputs = plan.input_bytes.size();
  const auto end = [&](size_t i) {
    return bound[i] +
           static_cast<uint64_t>(i < inputs ? plan.input_bytes[i] : plan.output_bytes[i - inputs]);
  };
  for (size_t out = 0; out < bound.size(); ++out) {
    if (out < inputs && !spec.inputs[out].written) continue;
    for (size_t other = 0; other < bound.size(); ++other) {
      if (other != out && bound[other] < end(out) && bound[out] < end(other)) return true;
    }
  }
  return false;
}

}  // namespace

Context::Context(const EngineParts& parts, bool timed)
    : parts_(parts),
      device_(*parts.device),
      pool_(device_.make_command_pool()),
      check_(make_check_buffer(device_, parts.spec)),
      guard_(make_guard_memory(device_, parts.guard.on(), parts.spec.dispatches.size())),
      bounces_(parts.spec.inputs.size() + parts.spec.outputs.size()),
      timed_(timed) {
  if (check_) clear_check(check_);
}

void Context::run(const WeightSet& weights, std::span<const int64_t> symbols,
                  std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  started_ = std::chrono::steady_clock::now();
  times_ = {};
  Recording& recording = recording_for(symbols, /*on_cuda=*/false);
  const ShapePlan& plan = recording.plan;
  const EngineSpec& spec = parts_.spec;
  check_tensors<HostTensor>(spec, spec.inputs, "input", inputs, plan.input_bytes);
  check_tensors<HostTensor>(spec, spec.outputs, "output", outputs, plan.output_bytes);
  last_ = &recording;
  if (plan.program.dispatches.empty()) return;
  reserve_arena(plan.arena_bytes);
  if (!device_.host_pointers()) reserve_staging(plan);
  bind(inputs, outputs, plan);
  if (recording.weights_id != weights.id() || recording.arena_generation != arena_generation_ ||
      recording.bound != bound_) {
    const bool overlap = device_.host_pointers() && overlaps_external(bound_, plan, spec);
    record(recording, weights, overlap, nullptr);
  }
  if (recording.poison && device_.host_pointers()) {
    std::memset(arena_.host(), 0xFF, static_cast<size_t>(plan.activation_bytes));
  }
  if (check_) clear_check(check_);
  if (guard_) clear_guard(guard_);
  submit(recording);
  if (guard_) throw_guard_report(guard_, parts_.spec.dispatches);
  if (check_) throw_check_report(check_, parts_.spec.dispatches);
  read_results(inputs, outputs, plan);
  if (timed_) times_.host_us = us_since_start();
}

void Context::read_results(std::span<const HostTensor> inputs,
                           std::span<const HostTensor> outputs, const ShapePlan& plan) {
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
  for (size_t slot = 0; slot < bound_.size(); ++slot) {
    const HostTensor to = tensor(slot);
    if (!is_written(slot) || to.size_bytes == 0) continue;
    if (bound_[slot] == reinterpret_cast<uint64_t>(to.data)) continue;
    std::memcpy(to.data, bounces_[slot].host(), static_cast<size_t>(to.size_bytes));
  }
}

bool Context::is_written(size_t slot) const {
  const auto& inputs = parts_.spec.inputs;
  return slot >= inputs.size() || inputs[slot].written;
}

Context::~Context() { device_.settle(submission_); }

bool Context::idle() const { return !staged_outputs_ && device_.finished(submission_); }

Context::Recording& Context::recording_for(std::span<const int64_t> symbols, bool on_cuda) {
  ++clock_;
  const uint64_t generation = debug_generation();
  for (const auto& r : recordings_) {
    if (r->on_cuda != on_cuda) continue;
    if (!std::equal(r->plan.symbols.begin(), r->plan.symbols.end(), symbols.begin(),
                    symbols.end())) {
      continue;
    }
    if (r->debug_generation != generation) {
      r->plan = plan_shape(parts_, symbols);
      r->debug_generation = generation;
      r->weights_id = 0;
    }
    r->last_used = clock_;
    return *r;
  }
  auto fresh = std::make_unique<Recording>();
  fresh->plan = plan_shape(parts_, symbols);
  fresh->debug_generation = generation;
  fresh->on_cuda = on_cuda;
  return add_recording(std::move(fresh));
}

Context::Recording& Context::add_recording(std::unique_ptr<Recording> fresh) {
  fresh->last_used = clock_;
  if (recordings_.size() < kMaxRecordings) {
    fresh->commands = allocate_commands(device_, pool_.get());
    recordings_.push_back(std::move(fresh));
    return *recordings_.back();
  }
  auto& oldest = *std::min_element(recordings_.begin(), recordings_.end(),
                                   [](auto& a, auto& b) { return a->last_used < b->last_used; });
  device_.wait(oldest->submission);
  fresh->commands = oldest->commands;
  fresh->more = std::move(oldest->more);
  if (last_ == oldest.get()) last_ = nullptr;
  oldest = std::move(fresh);
  return *oldest;
}

void Context::bind(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs,
                   const ShapePlan& plan) {
  bound_.clear();
  if (!device_.host_pointers()) {
    const int64_t first = plan.copy_offsets.empty() ? 0 : plan.copy_offsets[0];
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].size_bytes == 0) continue;
      std::memcpy(static_cast<char*>(upload_.host()) + (plan.copy_offsets[i] - first),
                  inputs[i].data, static_cast<size_t>(inputs[i].size_bytes));
    }
    upload_.flush();
    for (const int64_t offset : plan.copy_offsets) {
      bound_.push_back(arena_.address() + static_cast<uint64_t>(offset));
    }
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t address = host_address(inputs[i]);
    if (address % kTensorAlignment == 0) {
      bound_.push_back(address);
      continue;
    }
    bound_.push_back(bounce(i, inputs[i]));
    std::memcpy(bounces_[i].host(), inputs[i].data, static_cast<size_t>(inputs[i].size_bytes));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint64_t address = host_address(outputs[i]);
    bound_.push_back(address % kTensorAlignment == 0 ? address
                                                     : bounce(inputs.size() + i, outputs[i]));
  }
}

uint64_t Context::bounce(size_t slot, const HostTensor& tensor) {
  Allocation& memory = bounces_[slot];
  if (memory.size_bytes() < tensor.size_bytes) {
    memory = Allocation(device_, tensor.size_bytes, MemoryUse::kDevice);
  }
  return memory.address();
}

void Context::reserve_arena(int64_t bytes) {
  if (arena_ && arena_.size_bytes() >= bytes) return;
  device_.wait(submission_);
  arena_ = Allocation();  // freed first, so that both never live at once
  arena_ = Allocation(device_, bytes, MemoryUse::kDevice);
  ++arena_generation_;
}

void Context::reserve_staging(const ShapePlan& plan) {
  const size_t inputs = plan.input_bytes.size();
  const int64_t first_output =
      inputs < plan.copy_offsets.size() ? plan.copy_offsets[inputs] : plan.arena_bytes;
  const int64_t in_bytes = first_output - plan.activation_bytes;
  const int64_t out_bytes = plan.readback_bytes;
  if (!upload_ || upload_.size_bytes() < in_bytes) {
    upload_ = Allocation(device_, in_bytes, MemoryUse::kUpload);
    ++arena_generation_;
  }
  if (!readback_ || readback_.size_bytes() < out_bytes) {
    readback_ = Allocation(device_, out_bytes, MemoryUse::kReadback);
    ++arena_generation_;
  }
}

std::vector<uint64_t> Context::addresses_of(const ShapePlan& plan,
                                            const WeightSet& weights) const {
  const EngineSpec& spec = parts_.spec;
  std::vector<uint64_t> addresses(weights.addresses().begin(), weights.addresses().end());
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const Buffer& buffer = spec.buffers[b];
    if (buffer.kind == BufferKind::kInput) addresses[b] = bound_[buffer.index];
    if (buffer.kind == BufferKind::kOutput) {
      addresses[b] = bound_[spec.inputs.size() + buffer.index];
    }
    if (buffer.kind == BufferKind::kCheck) addresses[b] = check_.address();
    if (buffer.kind == BufferKind::kArena) {
      addresses[b] = arena_.address() + static_cast<uint64_t>(plan.placements[b].offset);
    }
  }
  return addresses;
}

EncodedProgram Context::encoded(const ShapePlan& plan, const DebugModes& modes) const {
  const auto& g = device_.profile().max_grid;
  return encode({.spec = parts_.spec,
                 .program = parts_.spec.dispatches,
                 .symbols = plan.symbols,
                 .placements = plan.placements,
                 .max_grid = {g[0], g[1], g[2]},
                 .modes = modes,
                 .guard_ranges = parts_.guard.ranges});
}

void Context::record(Recording& recording, const WeightSet& weights, bool overlap,
                     CudaLink* link) {
  ShapePlan& plan = recording.plan;
  recording.weights_id = 0;  // stale until the end, should something throw
  device_.wait(recording.submission);
  if (overlap != recording.external_overlap) {
    DebugModes modes = debug_modes();
    modes.full_barriers = modes.full_barriers || overlap;
    plan.program = encoded(plan, modes);
    recording.external_overlap = overlap;
  }
  recording.addresses = addresses_of(plan, weights);
  patch_addresses(plan.program, recording.addresses);
  if (debug_modes().check_hazards) check_recording(recording);
  const int64_t block_bytes = param_block_bytes(plan.program);
  if (block_bytes > recording.param_blocks.size_bytes()) {
    recording.param_blocks = Allocation(device_, block_bytes, MemoryUse::kParams);
  }
  if (guard_) patch_guards(plan.program, recording.param_blocks.address(), guard_);
  begin_commands(device_, recording.commands, /*resubmit=*/link != nullptr);
  if (link) link->order().record_begin(recording.commands);
  if (timed_) start_marks(recording);
  copy_in(recording.commands, plan, link == nullptr);
  mark(recording, recording.commands, 1);
  const VkCommandBuffer last = record_parts(recording, /*cut=*/link == nullptr);
  mark(recording, last, 2);
  if (link) {
    if (check_ || guard_) record_barrier(device_, last, kShaderWrites, kHostReads);
    link->order().record_end(last);
  } else {
    copy_out(last, plan);
  }
  mark(recording, last, 3);
  end_commands(device_, last);
  recording.poison = debug_modes().poison_arena;
  recording.weights_id = weights.id();
  recording.arena_generation = arena_generation_;
  recording.bound = bound_;
  ++recorded_;
  recording_us_ += us_since_start();
}

VkCommandBuffer Context::record_parts(Recording& recording, bool cut) {
  const EncodedProgram& program = recording.plan.program;
  const double limit_us = cut ? submission_limit_us(device_.profile(), debug_modes()) : 0;
  const std::vector<size_t> starts =
      submission_starts(parts_.spec, program, recording.plan.symbols, limit_us);
  VkCommandBuffer commands = recording.commands;
  DispatchRange range{.first = 0, .end = starts.empty() ? SIZE_MAX : starts[0]};
  for (size_t i = 0;; ++i) {
    record_dispatches(device_, commands, program, parts_.pipelines, recording.param_blocks,
                      /*timestamps=*/VK_NULL_HANDLE, range);
    if (i == starts.size()) break;
    end_commands(device_, commands);
    if (recording.more.size() == i) {
      recording.more.push_back(allocate_commands(device_, pool_.get()));
    }
    commands = recording.more[i];
    begin_commands(device_, commands);
    range = {.first = starts[i], .end = i + 1 < starts.size() ? starts[i + 1] : SIZE_MAX};
  }
  recording.parts = starts.size();
  return commands;
}

void Context::submit(Recording& recording) {
  const uint64_t before = submission_;
  try {
    if (timed_) {
      submit_timed(recording);
    } else {
      submit_parts(recording);
      device_.wait(submission_);
    }
  } catch (const std::exception& error) {
    const bool handed_over = submission_ != before || device_.lost();
    if (submission_ != before) device_.settle(submission_);  // it may write to the caller's memory
    if (handed_over && device_.host_pointers()) refuse_to_repeat(error);
    throw;
  }
}

void Context::refuse_to_repeat(const std::exception& error) const {
  std::string names;
  for (const Binding& input : parts_.spec.inputs) {
    if (input.written) names += (names.empty() ? "" : ", ") + input.name;
  }
  if (names.empty()) return;
  throw Error(ErrorKind::kDevice, std::string(error.what()) + "; the engine writes over " + names +
                                      ", which may hold a part of the result now: set it anew");
}

void Context::submit_parts(Recording& recording) {
  submission_ = device_.submit(recording.commands);
  for (size_t i = 0; i < recording.parts; ++i) submission_ = device_.submit(recording.more[i]);
}

void Context::check_recording(const Recording& recording) const {
  const std::vector<std::string> faults =
      find_faults({parts_.spec, parts_.spec.dispatches, recording.plan.symbols, recording.addresses,
                   recording.plan.program});
  if (!faults.empty()) throw Error(ErrorKind::kInternal, "[hazard check] " + faults.front());
}

void Context::copy_in(VkCommandBuffer commands, const ShapePlan& plan, bool staged_inputs) {
  const bool poison = debug_modes().poison_arena && plan.activation_bytes > 0;
  if (poison && !device_.host_pointers()) {
    device_.api().vkCmdFillBuffer(commands, arena_.buffer(), 0,
                                  static_cast<VkDeviceSize>(plan.activation_bytes), 0xFFFFFFFFU);
  }
  if (device_.host_pointers()) return;
  std::vector<VkBufferCopy> regions;
  for (size_t i = 0; staged_inputs && i < plan.input_bytes.size(); ++i) {
    if (plan.input_bytes[i] == 0) continue;
    regions.push_back({static_cast<VkDeviceSize>(plan.copy_offsets[i] - plan.copy_offsets[0]),
                       static_cast<VkDeviceSize>(plan.copy_offsets[i]),
                       static_cast<VkDeviceSize>(plan.input_bytes[i])});
  }
  if (!regions.empty()) {
    device_.api().vkCmdCopyBuffer(commands, upload_.buffer(), arena_.buffer(),
                                  static_cast<uint32_t>(regions.size()), regions.data());
  }
  if (!regions.empty() || poison) record_barrier(device_, commands, kCopyWrites, kShaderAccess);
}

void Context::copy_out(VkCommandBuffer commands, const ShapePlan& plan) {
  if (check_ || guard_) record_barrier(device_, commands, kShaderWrites, kHostReads);
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
  device_.api().vkCmdCopyBuffer(commands, arena_.buffer(), readback_.buffer(),
                                static_cast<uint32_t>(regions.size()), regions.data());
  record_barrier(device_, commands, kCopyWrites, kHostReads);
}

}  // namespace tv

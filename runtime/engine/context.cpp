#include "runtime/engine/context.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/commands/hazard_check.h"
#include "runtime/commands/submissions.h"
#include "runtime/engine/check_report.h"
#include "runtime/engine/tensor_check.h"

namespace tv {
namespace {

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

/// Addresses of CUDA's, because one memory may have several of Vulkan's.
bool output_overlaps(const EngineSpec& spec, std::span<const CudaTensor> inputs,
                     std::span<const CudaTensor> outputs) {
  const auto overlap = [](const CudaTensor& a, const CudaTensor& b) {
    return address_of(a) < address_of(b) + static_cast<uint64_t>(b.size_bytes) &&
           address_of(b) < address_of(a) + static_cast<uint64_t>(a.size_bytes);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t other = 0; spec.inputs[i].written && other < inputs.size(); ++other) {
      if (other != i && overlap(inputs[i], inputs[other])) return true;
    }
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (const CudaTensor& input : inputs) {
      if (overlap(outputs[o], input)) return true;
    }
    for (size_t other = 0; other < o; ++other) {
      if (overlap(outputs[o], outputs[other])) return true;
    }
  }
  return false;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

int64_t operand_bytes(const Dispatch& dispatch, std::span<const int64_t> symbols) {
  int64_t bytes = 0;
  for (const OperandRange& operand : dispatch.operands) {
    bytes += std::max<int64_t>(operand.size_bytes.eval(symbols), 0);
  }
  return bytes;
}

bool has_arena(const EngineSpec& spec) {
  return std::any_of(spec.buffers.begin(), spec.buffers.end(),
                     [](const Buffer& buffer) { return buffer.kind == BufferKind::kArena; });
}

}  // namespace

CallStream stream_of(const ContextKey& key) {
  return key.on_cuda ? CallStream{true, key.stream} : thread_stream();
}

/// Gives what a run has borrowed back, however it ends.
struct Context::Borrowed {
  explicit Borrowed(Context& context) : of(context) {}
  Borrowed(const Borrowed&) = delete;
  ~Borrowed() {
    of.arena_.give_back();
    of.host_.give_back();
    of.stream_.give_back();
  }
  Context& of;
};

Context::Context(const EngineParts& parts, bool timed)
    : parts_(parts),
      device_(*parts.device),
      recordings_(parts),
      clock_(device_, timed),
      host_(parts),
      cuda_(device_),
      arena_(device_.arenas(), /*own=*/parts.guard.on()),
      stream_(device_, /*own=*/parts.guard.on()),
      check_(make_check_buffer(device_, parts.spec)),
      guard_(make_guard_memory(device_, parts.guard.on(), parts.spec.dispatches.size())) {
  if (check_) clear_check(check_);
}

Context::~Context() { device_.settle(submission_); }

bool Context::idle() const { return !cuda_.copied_out() && device_.finished(submission_); }

void Context::run(const WeightSet& weights, std::span<const int64_t> symbols,
                  const HostTensors& inputs, const HostTensors& outputs, uint32_t times) {
  clock_.start();
  Recording& recording = recordings_.find({symbols, times});
  const ShapePlan& plan = recording.plan;
  const EngineSpec& spec = parts_.spec;
  check_tensors(spec, spec.inputs, "input", inputs, plan.input_bytes);
  check_tensors(spec, spec.outputs, "output", outputs, plan.output_bytes);
  recordings_.mark_last(recording);
  if (plan.program.dispatches.empty()) return;
  const Borrowed borrowed(*this);
  bind(inputs, outputs, plan);
  borrow_slots(weights);
  if (is_stale(recording, weights)) {
    const bool overlap = overlaps_external(bound_, plan, spec);
    record(recording, weights, overlap, nullptr);
  }
  if (recording.poison && device_.host_pointers() && plan.activation_bytes > 0) {
    std::memset(arena_.memory().host(), 0xFF, static_cast<size_t>(plan.activation_bytes));
  }
  if (check_) clear_check(check_);
  if (guard_) clear_guard(guard_);
  submit(recording);
  if (guard_) throw_guard_report(guard_, spec.dispatches);
  if (check_) throw_check_report(check_, spec.dispatches, writes_arguments(spec));
  host_.read_results(inputs, outputs, plan, bound_);
  clock_.ended();
}

int Context::run_on_cuda(const std::shared_ptr<const WeightSet>& weights,
                         std::span<const int64_t> symbols, std::span<const CudaTensor> inputs,
                         std::span<const CudaTensor> outputs, CudaLink& link, uint32_t times) {
  clock_.start();
  Recording& any = recordings_.find({symbols, times, /*on_cuda=*/true});
  const EngineSpec& spec = parts_.spec;
  check_tensors(spec, spec.inputs, "input", inputs, any.plan.input_bytes);
  check_tensors(spec, spec.outputs, "output", outputs, any.plan.output_bytes);
  recordings_.mark_last(any);
  if (any.plan.program.dispatches.empty()) return 0;
  const Borrowed borrowed(*this);
  borrow_arena(any.plan.activation_bytes);
  borrow_slots(*weights);
  cuda_.bind(inputs, outputs, link, submission_, bound_);
  Recording& recording = recordings_.find_bound(any, bound_);
  recordings_.mark_last(recording);
  const bool overlap = output_overlaps(spec, inputs, outputs);
  if (is_stale(recording, *weights) || recording.external_overlap != overlap) {
    record(recording, *weights, overlap, &link);
  }
  // What the last call on this context found, where it is over by now: no call waits to say it
  // at once.
  if (check_ && device_.finished(submission_)) take_check_report();
  if (guard_) clear_guard(guard_);  // the last call has waited
  const auto stream = static_cast<CuStream>(key_.stream);
  cuda_.copy_in(inputs, 0, link, stream);
  if (using_ != weights) {
    device_.wait(submission_);  // the last call reads what `using_` may free
    using_ = weights;
  }
  try {
    submission_ = recording.stream.plan
                      ? link.order().submit(batches(recording, device_.submitted()), stream)
                      : link.order().submit(recording.commands, stream);
    submitted_ += 1 + recording.parts;
  } catch (const std::exception& error) {
    submission_ = device_.submitted();  // it may be under way
    bool in_place = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in_place |= spec.inputs[i].written && !cuda_.is_staged(i);
    }
    if (in_place) refuse_to_repeat(error);
    throw;
  }
  recording.submission = submission_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_written(spec, i)) cuda_.copy_out(inputs.subspan(i, 1), i, link, stream);
  }
  cuda_.copy_out(outputs, inputs.size(), link, stream);
  if (guard_) {
    device_.wait(submission_);
    throw_guard_report(guard_, spec.dispatches);
  }
  if (waits_for_check(spec)) {
    device_.wait(submission_);
    take_check_report();
  }
  return cuda_.count_staged();
}

void Context::take_check_report() {
  try {
    throw_check_report(check_, parts_.spec.dispatches, writes_arguments(parts_.spec));
  } catch (const Error&) {
    clear_check(check_);
    throw;
  }
}

std::vector<DispatchTime> Context::time_dispatches(const WeightSet& weights,
                                                   std::span<const int64_t> symbols,
                                                   const HostTensors& inputs,
                                                   const HostTensors& outputs, int runs) {
  const EngineSpec& spec = parts_.spec;
  ShapePlan plan = plan_shape(parts_, symbols);
  check_tensors(spec, spec.inputs, "input", inputs, plan.input_bytes);
  check_tensors(spec, spec.outputs, "output", outputs, plan.output_bytes);
  DebugModes modes = debug_modes();
  modes.full_barriers = true;
  plan.program = encoded(plan, modes);
  const Borrowed borrowed(*this);
  bind(inputs, outputs, plan);
  borrow_slots(weights);
  StreamRecording stream;
  stream_.plan(stream, weights, spec, plan.program);
  patch_addresses(plan.program, addresses_of(plan, weights), stream.moved);
  Allocation blocks;
  if (const int64_t bytes = param_block_bytes(plan.program)) {
    blocks = Allocation(device_, bytes, MemoryUse::kParams);
  }
  if (guard_) {
    clear_guard(guard_);
    patch_guards(plan.program, blocks.address(), guard_);
  }
  const auto queries = static_cast<uint32_t>(plan.program.dispatches.size() +
                                             std::max<size_t>(stream.starts.size(), 1));
  const OwnedQueryPool timestamps = device_.make_timestamps(queries);
  const VkCommandBuffer commands = recordings_.new_commands();
  begin_commands(device_, commands);
  device_.api().vkCmdResetQueryPool(commands, timestamps.get(), 0, queries);
  record_begin(commands, plan, /*staged_inputs=*/true);
  const std::vector<uint32_t> at =
      record_timed(commands, plan.program, blocks, timestamps.get(), stream, weights);
  record_end(commands, plan);
  end_commands(device_, commands);

  std::vector<std::vector<double>> samples(spec.dispatches.size());
  std::vector<uint64_t> ticks(queries);
  const double us_per_tick = static_cast<double>(device_.physical().timestamp_period_ns) / 1e3;
  for (int run = 0; run < runs; ++run) {
    submission_ = device_.submit(commands);
    device_.wait(submission_);
    device_.check(device_.api().vkGetQueryPoolResults(
                      device_.api().device, timestamps.get(), 0, queries, queries * 8, ticks.data(),
                      8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                  "profile");
    for (size_t i = 0; i < plan.program.dispatches.size(); ++i) {
      samples[plan.program.dispatches[i].dispatch].push_back(
          static_cast<double>(ticks[at[i]] - ticks[at[i] - 1]) * us_per_tick);
    }
  }
  if (guard_) throw_guard_report(guard_, spec.dispatches);
  if (check_) throw_check_report(check_, spec.dispatches, writes_arguments(spec));
  host_.read_results(inputs, outputs, plan, bound_);
  std::vector<DispatchTime> times(spec.dispatches.size());
  for (size_t d = 0; d < times.size(); ++d) {
    times[d] = {median(samples[d]), mean(samples[d]), operand_bytes(spec.dispatches[d], symbols)};
  }
  return times;
}

std::vector<uint32_t> Context::record_timed(VkCommandBuffer commands, const EncodedProgram& program,
                                            const Allocation& blocks, VkQueryPool timestamps,
                                            const StreamRecording& stream,
                                            const WeightSet& weights) {
  std::vector<uint32_t> ends;
  const std::vector<size_t> whole = {0};
  const std::vector<size_t>& starts = stream.plan ? stream.starts : whole;
  uint32_t query = 0;
  for (size_t s = 0; s < starts.size(); ++s) {
    if (stream.plan) stream_.record_between(commands, stream.segments[s], weights);
    const size_t end = s + 1 < starts.size() ? starts[s + 1] : program.dispatches.size();
    record_dispatches(device_, commands, program, parts_.pipelines, blocks, timestamps,
                      {.first = starts[s], .end = end}, query);
    for (size_t i = starts[s]; i < end; ++i) ends.push_back(++query);
    ++query;
  }
  return ends;
}

void Context::borrow_slots(const WeightSet& weights) { stream_.borrow(weights, stream_of(key_)); }

std::vector<SubmitBatch> Context::batches(const Recording& recording, uint64_t after) {
  std::vector<VkCommandBuffer> launches = {recording.commands};
  launches.insert(launches.end(), recording.more.begin(),
                  recording.more.begin() + static_cast<std::ptrdiff_t>(recording.parts));
  return stream_.batches(recording.stream, launches, recording.times, after);
}

void Context::bind(const HostTensors& inputs, const HostTensors& outputs, const ShapePlan& plan) {
  borrow_arena(plan.arena_bytes);
  host_.borrow(plan, stream_of(key_));
  host_.bind(inputs, outputs, plan, arena_.memory().address(), bound_);
}

void Context::borrow_arena(int64_t bytes) {
  if (bytes > 0 || has_arena(parts_.spec)) arena_.borrow(bytes, stream_of(key_));
}

std::array<uint64_t, 4> Context::memory() const {
  return {arena_.id(), host_.upload_id(), host_.readback_id(), stream_.id()};
}

bool Context::is_stale(const Recording& recording, const WeightSet& weights) const {
  return recording.weights_id != weights.id() || recording.memory != memory() ||
         recording.bound != bound_;
}

std::vector<uint64_t> Context::addresses_of(const ShapePlan& plan, const WeightSet& weights) const {
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
      addresses[b] = arena_.memory().address() + static_cast<uint64_t>(plan.placements[b].offset);
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

void Context::record(Recording& recording, const WeightSet& weights, bool overlap, CudaLink* link) {
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
  stream_.plan(recording.stream, weights, parts_.spec, plan.program);
  stream_.record(recording.stream, weights);
  patch_addresses(plan.program, recording.addresses, recording.stream.moved);
  if (debug_modes().check_hazards) check_recording(recording);
  const int64_t block_bytes = param_block_bytes(plan.program);
  if (block_bytes > recording.param_blocks.size_bytes()) {
    recording.param_blocks = Allocation(device_, block_bytes, MemoryUse::kParams);
  }
  if (guard_) patch_guards(plan.program, recording.param_blocks.address(), guard_);
  begin_commands(device_, recording.commands, /*resubmit=*/link != nullptr);
  if (link) link->order().record_begin(recording.commands);
  clock_.begin(recording);
  record_begin(recording.commands, plan, link == nullptr);
  CallClock::mark(recording, recording.commands, 1);
  const VkCommandBuffer last = record_parts(recording, link != nullptr);
  CallClock::mark(recording, last, 2);
  if (link) {
    if (check_ || guard_) record_barrier(device_, last, kShaderWrites, kHostReads);
    link->order().record_end(last);
  } else {
    record_end(last, plan);
  }
  CallClock::mark(recording, last, 3);
  end_commands(device_, last);
  recording.poison = debug_modes().poison_arena;
  recording.weights_id = weights.id();
  recording.weights_made_by = weights.made_by();
  recording.memory = memory();
  recording.bound = bound_;
  ++recorded_;
  recording_us_ += clock_.us_since_start();
}

VkCommandBuffer Context::record_parts(Recording& recording, bool on_cuda) {
  const EncodedProgram& program = recording.plan.program;
  const double limit_us = on_cuda ? 0 : submission_limit_us(device_.profile(), debug_modes());
  const uint32_t times = recording.times;
  const size_t count = program.dispatches.size();
  StreamRecording& stream = recording.stream;
  const std::vector<DispatchRange> ranges = recorded_ranges(
      count, times,
      merged_starts(
          submission_starts(parts_.spec, program, recording.plan.symbols, limit_us, times),
          stream.starts, count, times));
  VkCommandBuffer commands = recording.commands;
  recording.parts = 0;
  size_t turn = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].next_submission) {
      end_commands(device_, commands);
      const size_t part = recording.parts++;
      if (recording.more.size() == part) recording.more.push_back(recordings_.new_commands());
      commands = recording.more[part];
      begin_commands(device_, commands, /*resubmit=*/on_cuda);
    }
    if (i > 0 && ranges[i].first == 0) {  // another time
      record_barrier(device_, commands, kShaderWrites, kShaderAccess);
      ++turn;
    }
    if (stream.plan)
      stream.pieces.push_back(turn * stream.starts.size() + stream.at(ranges[i].first));
    record_dispatches(device_, commands, program, parts_.pipelines, recording.param_blocks,
                      /*timestamps=*/VK_NULL_HANDLE, ranges[i]);
  }
  return commands;
}

void Context::record_begin(VkCommandBuffer commands, const ShapePlan& plan, bool staged_inputs) {
  if (device_.host_pointers()) return;
  const bool poison = debug_modes().poison_arena && plan.activation_bytes > 0;
  if (poison) {
    device_.api().vkCmdFillBuffer(commands, arena_.memory().buffer(), 0,
                                  static_cast<VkDeviceSize>(plan.activation_bytes), 0xFFFFFFFFU);
  }
  const bool copied = staged_inputs && host_.record_copies_in(commands, plan, arena_.memory());
  if (copied || poison) record_barrier(device_, commands, kCopyWrites, kShaderAccess);
}

void Context::record_end(VkCommandBuffer commands, const ShapePlan& plan) {
  if (check_ || guard_) record_barrier(device_, commands, kShaderWrites, kHostReads);
  host_.record_copies_out(commands, plan, arena_.memory());
}

void Context::check_recording(const Recording& recording) const {
  const std::vector<std::string> faults =
      find_faults({parts_.spec, parts_.spec.dispatches, recording.plan.symbols, recording.addresses,
                   recording.plan.program, recording.stream.moved});
  if (!faults.empty()) throw Error(ErrorKind::kInternal, "[hazard check] " + faults.front());
}

void Context::submit(Recording& recording) {
  const uint64_t before = submission_;
  try {
    clock_.submitting();
    if (recording.stream.plan) {
      submission_ = device_.submit(batches(recording, recording.weights_made_by));
    } else {
      submission_ = device_.submit(recording.commands);
      for (size_t i = 0; i < recording.parts; ++i) submission_ = device_.submit(recording.more[i]);
    }
    submitted_ += 1 + recording.parts;
    clock_.submitted();
    device_.wait(submission_);
    clock_.computed(recording);
  } catch (const std::exception& error) {
    const bool handed_over = submission_ != before || device_.lost();
    if (submission_ != before) device_.settle(submission_);  // it may write to the caller's memory
    if (handed_over && host_.writes_in_place()) refuse_to_repeat(error);
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

}  // namespace tv

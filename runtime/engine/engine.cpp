#include "runtime/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <set>

#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/commands/hazard_check.h"
#include "runtime/engine/engine_impl.h"
#include "runtime/spec/bind_shapes.h"
#include "runtime/vulkan/process_state.h"

namespace tv {
namespace {

std::atomic<uint64_t> next_engine_id{1};

/// The fields of a fingerprint (DeviceProfile::runs_on, tuned_for); none if a file has other
/// text.
Json::Object fields_of(const std::string& text) {
  try {
    const Json json = Json::parse(text, "fingerprint");
    if (const auto* object = json.get<Json::Object>()) return *object;
  } catch (const Error&) {  // of a file that something else wrote
  }
  return {};
}

std::string shown(const Json::Object& fields, const std::string& name) {
  const auto found = fields.find(name);
  if (found == fields.end()) return "nothing";
  const auto* list = found->second.get<Json::Array>();
  return list ? std::to_string(list->size()) + " kinds" : found->second.dump();
}

/// What differs between two fingerprints: "max_shared_bytes 49152 (here 32768), …".
std::string difference(const std::string& needed, const std::string& here) {
  const Json::Object theirs = fields_of(needed), ours = fields_of(here);
  if (theirs.empty()) return needed;
  std::set<std::string> names;
  for (const auto* side : {&theirs, &ours}) {
    for (const auto& [name, value] : *side) names.insert(name);
  }
  std::string text;
  for (const std::string& name : names) {
    const auto left = theirs.find(name), right = ours.find(name);
    if (left != theirs.end() && right != ours.end() && left->second == right->second) continue;
    const std::string there = shown(theirs, name), now = shown(ours, name);
    text += (text.empty() ? "" : ", ") + name + " " +
            (there == now ? "of other kinds" : there + " (here " + now + ")");
  }
  return text;
}

/// "NVIDIA H100, driver NVIDIA 550.54" of DeviceProfile::tuned_for.
std::string device_text(const std::string& tuned_for) {
  const Json::Object fields = fields_of(tuned_for);
  if (fields.empty()) return tuned_for;
  const auto field = [&](const char* name) -> std::string {
    const auto found = fields.find(name);
    const auto* text = found == fields.end() ? nullptr : found->second.get<std::string>();
    return text ? *text : "";
  };
  return field("name") + ", driver " + field("driver_name") + " " + field("driver_info");
}

int64_t resolved_budget(int64_t budget) {
  const std::string text = env("TORCH_VULKAN_WEIGHT_BUDGET");
  if (budget == kAutoWeightBudget && !text.empty()) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, budget);
    if (error != std::errc() || at != end) budget = kNoWeightStreaming - 1;
  }
  if (budget >= kNoWeightStreaming) return budget;
  throw Error(
      ErrorKind::kUser,
      "[weight_budget] want bytes, -1 (what the device has free) or -2 (all weights), got " +
          (text.empty() ? std::to_string(budget) : text));
}

}  // namespace

std::shared_ptr<Engine> Engine::create(std::shared_ptr<Device> device, EngineSpec spec,
                                       EngineOptions options) {
  require_vulkan_usable();
  if (!device) throw Error(ErrorKind::kInternal, "[engine] no device");
  validate(spec);
  const std::string here = device->profile().runs_on();
  if (!spec.runs_on.empty() && spec.runs_on != here) {
    throw Error(ErrorKind::kUser, "[" + (spec.name.empty() ? "engine" : spec.name) +
                                      "] was built for another kind of device than " +
                                      device->profile().name + ": it needs " +
                                      difference(spec.runs_on, here) +
                                      "; build it again on this device");
  }
  const std::string tuned_here = device->profile().tuned_for();
  if (!spec.tuned_for.empty() && spec.tuned_for != tuned_here) {
    log(LogLevel::kWarn, "[" + (spec.name.empty() ? "engine" : spec.name) + "] was tuned for " +
                             device_text(spec.tuned_for) + " and runs on " +
                             device_text(tuned_here) +
                             ": its results are right, its kernels may not be the fastest");
  }
  return std::make_shared<EngineImpl>(std::move(device), std::move(spec), options);
}

EngineImpl::EngineImpl(std::shared_ptr<Device> device, EngineSpec spec, EngineOptions options)
    : parts_{std::move(device),
             std::move(spec),
             {},
             {},
             next_engine_id++,
             resolved_budget(options.weight_budget)} {
  if (options.check_addresses) parts_.guard = plan_guards(parts_.spec, options.max_iterations);
  parts_.pipelines = create_pipelines(*parts_.device, parts_.spec, parts_.guard);
  warm_pipelines(*parts_.device, parts_.spec, parts_.pipelines, parts_.guard);
}

std::vector<int64_t> EngineImpl::bind_shapes(
    std::span<const std::vector<int64_t>> input_shapes) const {
  return tv::bind_shapes(parts_.spec, input_shapes);
}

std::shared_ptr<const WeightSet> EngineImpl::prepare_weights(std::span<const HostTensor> weights,
                                                             WeightSource source) const {
  require_vulkan_usable();
  return std::make_shared<const WeightSet>(parts_, weights, source);
}

std::vector<bool> EngineImpl::weights_in_place() const {
  if (parts_.device->host_pointers()) return weights_read_by_calls(parts_.spec);
  return std::vector<bool>(parts_.spec.weights.size(), false);
}

void EngineImpl::check_owner(const WeightSet& weights) const {
  if (weights.engine_id() == parts_.id) return;
  throw Error(ErrorKind::kInternal, "[" + parts_.spec.name + "] the weights are another engine's");
}

std::shared_ptr<const WeightSet> EngineImpl::update_weights(const WeightSet& old,
                                                            std::span<const HostTensor> weights,
                                                            std::span<const uint32_t> changed,
                                                            WeightSource source) const {
  require_vulkan_usable();
  check_owner(old);
  return std::make_shared<const WeightSet>(parts_, old, weights, changed, source);
}

int64_t EngineImpl::held_bytes(const WeightSet& weights) const {
  check_owner(weights);
  return weights.held_bytes();
}

WeightMemory EngineImpl::weight_memory(const WeightSet& weights) const {
  check_owner(weights);
  return weights.memory();
}

std::vector<bool> EngineImpl::weights_read(const WeightSet& old,
                                           std::span<const uint32_t> changed) const {
  check_owner(old);
  const EngineSpec& spec = parts_.spec;
  std::vector<bool> read(spec.weights.size(), parts_.device->host_pointers());
  const WeightPlan plan = old.plan_change(spec, changed);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (plan.needed[b]) read[spec.buffers[b].index] = true;
  }
  return read;
}

void EngineImpl::run(const WeightSet& weights, std::span<const int64_t> symbols,
                     std::span<const HostTensor> inputs, std::span<const HostTensor> outputs,
                     uint32_t times) {
  require_vulkan_usable();
  check_owner(weights);
  std::unique_ptr<Context> context = take_context();
  try {
    context->run(weights, symbols, inputs, outputs, times);
  } catch (const Error& error) {
    // A user's error leaves the context as it was; after a device error it is dropped.
    if (error.kind() != ErrorKind::kDevice) give_back(std::move(context));
    throw;
  }
  give_back(std::move(context));
}

std::vector<DispatchTime> EngineImpl::time_dispatches(const WeightSet& weights,
                                                      std::span<const int64_t> symbols,
                                                      std::span<const HostTensor> inputs,
                                                      std::span<const HostTensor> outputs,
                                                      int runs) {
  require_vulkan_usable();
  check_owner(weights);
  return Context(parts_).time_dispatches(weights, symbols, inputs, outputs, runs);
}

int EngineImpl::cuda_device() {
  require_vulkan_usable();
  const CudaLink* link = cuda_link(*parts_.device);
  return link ? link->ordinal() : -1;
}

int EngineImpl::run_on_cuda(std::shared_ptr<const WeightSet> weights,
                            std::span<const int64_t> symbols, std::span<const CudaTensor> inputs,
                            std::span<const CudaTensor> outputs, void* stream, uint32_t times) {
  require_vulkan_usable();
  CudaLink* link = cuda_link(*parts_.device);
  if (!link) {
    throw Error(ErrorKind::kDevice, "[" + parts_.spec.name + "] CUDA does not share memory with " +
                                        parts_.device->profile().name);
  }
  return run_on_cuda(std::move(weights), symbols, inputs, outputs, *link, stream, times);
}

int EngineImpl::run_on_cuda(std::shared_ptr<const WeightSet> weights,
                            std::span<const int64_t> symbols, std::span<const CudaTensor> inputs,
                            std::span<const CudaTensor> outputs, CudaLink& link, void* stream,
                            uint32_t times) {
  check_owner(*weights);
  const CudaScope scope(link.cuda(), link.context());
  link.refuse_capture(static_cast<CuStream>(stream));
  std::unique_ptr<Context> context = take_context({true, stream});
  int copied = 0;
  try {
    copied = context->run_on_cuda(weights, symbols, inputs, outputs, link, times);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kDevice) give_back(std::move(context));
    throw;
  }
  give_back(std::move(context));
  return copied;
}

int64_t EngineImpl::arena_bytes(std::span<const int64_t> symbols) const {
  return plan_shape(parts_, symbols).activation_bytes;
}

std::unique_ptr<Context> EngineImpl::take_context(ContextKey key) {
  const auto take = [&](auto found) {
    std::unique_ptr<Context> context = std::move(*found);
    idle_.erase(std::next(found).base());
    context->set_key(key);
    return context;
  };
  // One that has recorded with the arena that this call will be given, if there is one.
  const uint64_t arena = parts_.device->arenas().last_of(stream_of(key));
  {
    const std::lock_guard lock(mutex_);
    auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& context) {
      return context->key() == key && context->last_arena() == arena;
    });
    if (found != idle_.rend()) return take(found);
    found = std::find_if(idle_.rbegin(), idle_.rend(),
                         [&](const auto& context) { return context->key() == key; });
    if (found != idle_.rend()) return take(found);
    found = std::find_if(idle_.rbegin(), idle_.rend(),
                         [](const auto& context) { return context->idle(); });
    if (found != idle_.rend()) return take(found);
    ++stats_.contexts;
  }
  auto context = std::make_unique<Context>(parts_);
  context->set_key(key);
  return context;
}

void EngineImpl::give_back(std::unique_ptr<Context> context) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(context));
}

EngineStats EngineImpl::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  for (const auto& context : idle_) {
    stats.recordings += context->recorded();
    stats.recording_us += context->recording_us();
    stats.submissions += context->submitted();
  }
  return stats;
}

std::vector<std::string> EngineImpl::faults_of_last_recording() const {
  const std::lock_guard lock(mutex_);
  const Recording* last = idle_.empty() ? nullptr : idle_.back()->last();
  if (!last) throw Error(ErrorKind::kInternal, "[engine] nothing was recorded yet");
  return find_faults({parts_.spec, parts_.spec.dispatches, last->plan.symbols, last->addresses,
                      last->plan.program, last->stream.moved});
}

size_t EngineImpl::submissions_of_last_recording() const {
  const std::lock_guard lock(mutex_);
  const Recording* last = idle_.empty() ? nullptr : idle_.back()->last();
  if (!last) throw Error(ErrorKind::kInternal, "[engine] nothing was recorded yet");
  return last->parts + 1;
}

int64_t EngineImpl::barriers(std::span<const int64_t> symbols) const {
  return plan_shape(parts_, symbols).program.barriers;
}

}  // namespace tv

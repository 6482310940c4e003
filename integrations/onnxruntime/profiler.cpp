#include "integrations/onnxruntime/profiler.h"

#include <array>
#include <cmath>
#include <utility>

namespace tv::ort {
namespace {

// OrtEp's functions follow each other without a gap, so that those of API 25 may stand behind.
static_assert(sizeof(OrtEp) % sizeof(void*) == 0 && ORT_API_VERSION == 23);

constexpr int kKernel = 2;  // OrtProfilingEventCategory_KERNEL
constexpr size_t kMostLayers = 1 << 20;

/// Functions of OrtEpApi, by their places behind the last of the headers' version.
constexpr size_t kCreateProfilingEvent = 49, kReleaseProfilingEvent = 50, kAddEvents = 56;

using CreateEvent = OrtStatus* (*)(int category, int32_t process, int32_t thread, const char* name,
                                   int64_t at_us, int64_t duration_us, const char* const* keys,
                                   const char* const* values, size_t count, OrtProfilingEvent**);
using ReleaseEvent = void (*)(OrtProfilingEvent*);
using AddEvents = OrtStatus* (*)(OrtProfilingEventsContainer*, const OrtProfilingEvent* const*,
                                 size_t);

template <typename Function>
Function function_at(size_t place) {
  return *(reinterpret_cast<const Function*>(api().ep + 1) + place);
}

struct Release {
  void operator()(OrtProfilingEvent* event) const {
    function_at<ReleaseEvent>(kReleaseProfilingEvent)(event);
  }
};
using OwnedEvent = std::unique_ptr<OrtProfilingEvent, Release>;

OwnedEvent event_of(const LayerLog::Layer& layer) {
  const std::array<const char*, 3> keys = {"provider", "engine", "tactic"};
  const std::array<const char*, 3> values = {kName, layer.engine.c_str(), layer.tactic.c_str()};
  OrtProfilingEvent* made = nullptr;
  Ort::ThrowOnError(function_at<CreateEvent>(kCreateProfilingEvent)(
      kKernel, -1, -1, layer.name.c_str(), layer.at_us, layer.duration_us, keys.data(),
      values.data(), keys.size(), &made));
  return OwnedEvent(made);
}

class Profiler : public OrtEpProfilerImpl {
 public:
  explicit Profiler(std::shared_ptr<LayerLog> log) : OrtEpProfilerImpl{}, log_(std::move(log)) {
    ort_version_supported = 25;
    OrtEpProfilerImpl::Release = [](OrtEpProfilerImpl* self) noexcept {
      delete static_cast<Profiler*>(self);
    };
    StartProfiling = [](OrtEpProfilerImpl* self, int64_t since_start_ns) noexcept {
      return guarded([&] { log_of(self).start(std::chrono::nanoseconds(since_start_ns)); });
    };
    EndProfiling = [](OrtEpProfilerImpl* self, OrtProfilingEventsContainer* into) noexcept {
      return guarded([&] { hand_over(log_of(self), into); });
    };
  }

 private:
  static LayerLog& log_of(OrtEpProfilerImpl* self) { return *static_cast<Profiler*>(self)->log_; }

  static void hand_over(LayerLog& log, OrtProfilingEventsContainer* into) {
    std::vector<OwnedEvent> events;
    std::vector<const OrtProfilingEvent*> all;
    for (const LayerLog::Layer& layer : log.end()) {
      events.push_back(event_of(layer));
      all.push_back(events.back().get());
    }
    if (all.empty()) return;
    Ort::ThrowOnError(function_at<AddEvents>(kAddEvents)(into, all.data(), all.size()));
  }

  const std::shared_ptr<LayerLog> log_;
};

}  // namespace

void LayerLog::start(std::chrono::nanoseconds since_start) {
  const std::lock_guard lock(mutex_);
  origin_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(since_start);
  layers_.clear();
  on_ = true;
}

void LayerLog::add(const EngineSpec& spec, Clock::time_point started,
                   std::span<const DispatchTime> times) {
  const std::lock_guard lock(mutex_);
  if (!on_) return;
  using Us = std::chrono::duration<double, std::micro>;
  double at_us = std::chrono::duration_cast<Us>(started - origin_).count();
  for (size_t d = 0; d < times.size() && layers_.size() < kMostLayers; ++d) {
    const Dispatch& dispatch = spec.dispatches[d];
    layers_.push_back({.name = dispatch.name,
                       .tactic = dispatch.tactic,
                       .engine = spec.name,
                       .at_us = std::llround(at_us),
                       .duration_us = std::llround(times[d].time_us)});
    at_us += times[d].time_us;
  }
}

std::vector<LayerLog::Layer> LayerLog::end() {
  const std::lock_guard lock(mutex_);
  on_ = false;
  return std::exchange(layers_, {});
}

OrtEpProfilerImpl* make_profiler(std::shared_ptr<LayerLog> log) {
  return new Profiler(std::move(log));
}

}  // namespace tv::ort

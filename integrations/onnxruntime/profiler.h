#pragma once
// Layers of engines in ONNX Runtime's own trace ("profile" in its interface).

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "integrations/onnxruntime/ort.h"
#include "runtime/engine/engine.h"

// What API 25 adds to the headers' version, by its names.
struct OrtProfilingEvent;
struct OrtProfilingEventsContainer;
struct OrtEpProfilerImpl {
  uint32_t ort_version_supported;
  void (*Release)(OrtEpProfilerImpl*) noexcept;
  OrtStatus* (*StartProfiling)(OrtEpProfilerImpl*, int64_t since_start_ns) noexcept;
  OrtStatus* (*StartEvent)(OrtEpProfilerImpl*, uint64_t correlation) noexcept;
  OrtStatus* (*StopEvent)(OrtEpProfilerImpl*, uint64_t correlation,
                          const OrtProfilingEvent*) noexcept;
  OrtStatus* (*EndProfiling)(OrtEpProfilerImpl*, OrtProfilingEventsContainer*) noexcept;
};

namespace tv::ort {

/// OrtEp as API 25 has it: the table only grows.
struct EpOfApi25 : OrtEp {
  void* GetKernelRegistry = nullptr;
  void* IsConcurrentRunSupported = nullptr;
  void* Sync = nullptr;
  OrtStatus* (*CreateProfiler)(OrtEp*, OrtEpProfilerImpl**) noexcept = nullptr;
};

/// Layers that ran while a trace was written. Any number of threads may add some.
class LayerLog {
 public:
  using Clock = std::chrono::steady_clock;
  struct Layer {
    std::string name, tactic, engine;
    int64_t at_us = 0, duration_us = 0;  ///< since the trace's start
  };

  /// A trace is written from now on, or has been for `since_start`.
  void start(std::chrono::nanoseconds since_start);
  bool is_on() const { return on_; }
  /// Dispatches of a call, one after the other from its start: the device's clock is another.
  void add(const EngineSpec& spec, Clock::time_point started, std::span<const DispatchTime> times);
  /// What came since the start; nothing is added any more.
  std::vector<Layer> end();

 private:
  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  Clock::time_point origin_;  // guarded by mutex_, as is what follows
  std::vector<Layer> layers_;
};

/// What ONNX Runtime calls about its trace. It deletes it.
OrtEpProfilerImpl* make_profiler(std::shared_ptr<LayerLog> log);

}  // namespace tv::ort

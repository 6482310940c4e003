#pragma once
// Calls of an engine whose time is taken apart: what a benchmark reports.

#include <memory>
#include <span>

#include "runtime/engine/engine.h"
#include "runtime/engine/host_tensors.h"

namespace tv {

/// Where the time of one call went, in µs.
struct CallTimes {
  double start_us = 0;     ///< when it began, since the TimedCalls were made
  double host_us = 0;      ///< from there until the results are in the caller's memory
  double queue_us = 0;     ///< of this, until the work was handed over: checks, copies, recording,
  double done_us = 0;      ///< and until the device was done; then results are copied
  double upload_us = 0;    ///< on the device: copies from staging memory,
  double compute_us = 0;   ///< kernels,
  double download_us = 0;  ///< and copies back
  double device_us() const { return upload_us + compute_us + download_us; }
};

/// An execution context of its own. One thread at a time; several may share the engine.
class TimedCalls {
 public:
  explicit TimedCalls(std::shared_ptr<Engine> engine);
  ~TimedCalls();
  TimedCalls(TimedCalls&&) noexcept;

  /// As Engine::run. Where the device's clock cannot be read, as on CPU drivers, compute_us is the
  /// host's time from the submission to the end.
  CallTimes run(const WeightSet& weights, std::span<const int64_t> symbols,
                std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  /// The same on tensors in pieces.
  CallTimes run_pieces(const WeightSet& weights, std::span<const int64_t> symbols,
                       std::span<const HostPieces> inputs, std::span<const HostPieces> outputs);
  /// True if compute_us comes from the device's own clock.
  bool device_clock() const;

 private:
  CallTimes run_on(const WeightSet& weights, std::span<const int64_t> symbols,
                   const HostTensors& inputs, const HostTensors& outputs);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tv

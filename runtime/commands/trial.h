#pragma once
// Programs on memory of their own, run to be timed and checked: what the tuner measures with.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/spec/engine_spec.h"
#include "runtime/vulkan/device.h"

namespace tv {

/// Device memory that the host fills and reads. Not thread-safe.
class TrialMemory {
 public:
  /// Throws OutOfMemoryError.
  TrialMemory(std::shared_ptr<Device> device, int64_t size_bytes);
  ~TrialMemory();
  TrialMemory(TrialMemory&&) noexcept;

  uint64_t address() const;
  int64_t size_bytes() const;
  /// Writes `pattern`, at most 4 MiB, again and again until the memory is full.
  void fill(std::span<const uint8_t> pattern);
  /// The first `bytes` bytes.
  std::vector<uint8_t> read(int64_t bytes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The dispatches of a specification at one set of shapes. Times are the device's own (timestamps),
/// on CPU drivers the host clock's. Not thread-safe; different trials may be made in parallel.
class Trial {
 public:
  /// Makes the pipelines. `addresses`: of each spec.buffers, where the memory is large enough.
  /// Throws Error(kDevice) if the driver refuses one.
  Trial(std::shared_ptr<Device> device, EngineSpec spec);
  ~Trial();

  /// Sets shapes and memory. Throws Error(kInternal) if a grid does not fit the device.
  void bind(std::span<const int64_t> symbols, std::span<const uint64_t> addresses);
  /// Runs the weight program.
  void run_weight_program();
  /// Runs each dispatch by itself with at most `max_groups` workgroups: µs of each, in the order of
  /// the specification, 0 for one that has nothing to do.
  std::vector<double> run_steps(int64_t max_groups = INT64_MAX);
  /// Workgroups of each dispatch.
  std::vector<int64_t> groups() const;
  /// Runs all dispatches `times` times, one run after the other: µs of one run.
  double run(int times);
  /// Whether the device was given other work, an engine's call say, while the last `run` or
  /// `run_steps` was timed, which may have taken longer for it.
  bool disturbed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tv

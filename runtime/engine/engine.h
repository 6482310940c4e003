#pragma once
// A loaded engine: immutable, shared between threads. Execution contexts (arena, recordings) are
// pooled inside and each belongs to one call at a time.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/spec/engine_spec.h"
#include "runtime/spec/tensor.h"
#include "runtime/spec/vke.h"
#include "runtime/vulkan/device.h"

namespace tv {

/// What one dispatch took: 0 where its grid is empty.
struct DispatchTime {
  double time_us = 0;  ///< median
  double mean_us = 0;
  int64_t bytes = 0;  ///< of its operands
};

/// What an engine did so far.
struct EngineStats {
  uint64_t contexts = 0;    ///< made: the most calls that ran at one time
  uint64_t recordings = 0;  ///< command buffers recorded: one for each new shape or new memory
  double recording_us = 0;  ///< of the calls that recorded, from their start to the submission
};

class CudaLink;  // internals: runtime/cuda/link.h

/// Where the data of weights is: on the host, or CUDA memory, read behind what is on `stream`.
struct WeightSource {
  bool on_cuda = false;
  void* stream = nullptr;
  CudaLink* link = nullptr;  ///< null: the device's own
};

/// Weights as one engine uses them: device copies (or host pointers where the device takes them)
/// and everything the weight program made from them. Immutable, shared between threads.
class WeightSet;

/// How an engine is loaded.
struct EngineOptions {
  /// For files of unknown origin: kernels are rewritten so that they touch no memory but the
  /// operands of their dispatches; a call in which one tried throws Error(kUser). Kernels that
  /// cannot be bounded so are refused (docs/deployment.md, "What to trust").
  bool check_addresses = false;
  /// With `check_addresses`: rounds of all loops of one invocation; beyond, loops end and the call
  /// throws.
  uint32_t max_iterations = 1 << 26;
};

class Engine {
 public:
  /// Creates pipelines (and warms them up, so that no compilation is left for the first call).
  /// Throws Error(kUser) where `spec.runs_on` does not match the device.
  static std::shared_ptr<Engine> create(std::shared_ptr<Device> device, EngineSpec spec,
                                        EngineOptions options = {});
  virtual ~Engine() = default;

  virtual const EngineSpec& spec() const = 0;
  virtual const std::shared_ptr<Device>& device() const = 0;

  /// Values of the engine's symbols for these input shapes. Throws Error(kUser) naming the input,
  /// the dimension, what was got and the range allowed.
  virtual std::vector<int64_t> bind_shapes(
      std::span<const std::vector<int64_t>> input_shapes) const = 0;

  /// Uploads the weights (spec().weights order) and runs the weight program.
  virtual std::shared_ptr<const WeightSet> prepare_weights(std::span<const HostTensor> weights,
                                                           WeightSource source = {}) const = 0;

  /// The set for weights of which those numbered in `changed` have other bytes than `old`'s:
  /// computes what depends on them and shares the rest with `old`. That stays as it is, so calls
  /// that use it may run meanwhile, and on an error nothing has changed.
  virtual std::shared_ptr<const WeightSet> update_weights(const WeightSet& old,
                                                          std::span<const HostTensor> weights,
                                                          std::span<const uint32_t> changed,
                                                          WeightSource source = {}) const = 0;
  /// The weights that `update_weights` will read; the others may have null data.
  virtual std::vector<bool> weights_read(const WeightSet& old,
                                         std::span<const uint32_t> changed) const = 0;

  /// Runs the engine and waits. Inputs and outputs in the order of the spec, sized for `symbols`.
  /// Thread-safe. Throws Error(kDevice) on device loss or out-of-memory.
  virtual void run(const WeightSet& weights, std::span<const int64_t> symbols,
                   std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) = 0;

  /// CUDA's number of the GPU that the engine runs on; -1 where CUDA's memory cannot be shared with
  /// it.
  virtual int cuda_device() = 0;
  /// The same on CUDA tensors, behind what is on `stream` (a cudaStream_t of that device) and
  /// before what is put there later; returns without waiting. Copies on the device the tensors that
  /// cannot be shared and returns their number. Throws Error(kDevice) also while the stream is
  /// captured.
  virtual int run_on_cuda(std::shared_ptr<const WeightSet> weights,
                          std::span<const int64_t> symbols, std::span<const CudaTensor> inputs,
                          std::span<const CudaTensor> outputs, void* stream) = 0;

  /// Runs `runs` times, each dispatch alone between barriers, and returns what the device's clock
  /// says of each of EngineSpec::dispatches; inputs that are `written` are written `runs` times.
  /// Throws Error(kUnsupported) where the device has no timestamps.
  virtual std::vector<DispatchTime> profile(const WeightSet& weights,
                                            std::span<const int64_t> symbols,
                                            std::span<const HostTensor> inputs,
                                            std::span<const HostTensor> outputs, int runs) = 0;

  /// What the engine did so far.
  virtual EngineStats stats() const = 0;

  /// Bytes of activation arena that `symbols` need.
  virtual int64_t arena_bytes(std::span<const int64_t> symbols) const = 0;
};

}  // namespace tv

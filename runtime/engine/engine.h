#pragma once
// A loaded engine: immutable, shared between threads. It keeps a pool of execution contexts, each
// of which serves one call at a time, in memory that the engines of a device share.

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

/// Time of one dispatch in microseconds; 0 if its grid is empty.
struct DispatchTime {
  double time_us = 0;  ///< median of the runs
  double mean_us = 0;
  int64_t bytes = 0;  ///< of its operands
};

/// Counts since an engine was created.
struct EngineStats {
  uint64_t contexts = 0;     ///< created: the most calls that ran at one time
  uint64_t recordings = 0;   ///< of command buffers: one for each new shape or new memory
  double recording_us = 0;   ///< host time of the calls that recorded, from start to submission
  uint64_t submissions = 0;  ///< to the device's queue, of the calls that are over
};

class CudaLink;  // internals: runtime/cuda/link.h

/// Where the data of weights is: on the host, or in CUDA memory, read after the work that is on
/// `stream`.
struct WeightSource {
  bool on_cuda = false;
  void* stream = nullptr;
  CudaLink* link = nullptr;  ///< null: that of the device
};

/// Weights as one engine uses them: device copies (or host pointers if the device can use them) and
/// the results of the weight program. Immutable, shared between threads.
class WeightSet;

/// Bytes of weights as they are held, or streamed through.
struct WeightMemory {
  int64_t device = 0;  ///< tensors that the device reads where the caller has them do not count
  int64_t host = 0;    ///< in host memory, from where they are streamed
  int64_t slots = 0;   ///< of device memory that a call borrows for them
};

/// Special values of weight_budget: as much as the device says is free; nothing is streamed.
inline constexpr int64_t kAutoWeightBudget = -1, kNoWeightStreaming = -2;

/// How an engine is loaded.
struct EngineOptions {
  /// For files of unknown origin: kernels are rewritten so that they touch only the operands of
  /// their dispatches; a call in which a kernel violates that throws Error(kUser). Kernels that
  /// cannot be bounded are refused (docs/deployment.md, "What to trust").
  bool check_addresses = false;
  /// With `check_addresses`: the most loop iterations of one invocation, all loops together. After
  /// that loops end and the call throws.
  uint32_t max_iterations = 1 << 26;
  /// Bytes of weights that are kept on the device, of each set; the others stay in host memory and
  /// are copied to the device ahead of the launches that read them. kAutoWeightBudget goes by
  /// TORCH_VULKAN_WEIGHT_BUDGET where that is set, else by the memory that the device says is free,
  /// and streams nothing where its memory is the host's.
  int64_t weight_budget = kAutoWeightBudget;
};

class Engine {
 public:
  /// Creates the pipelines and runs each once, so that the first call compiles nothing. Throws
  /// Error(kUser) if `spec.runs_on` does not match the device.
  static std::shared_ptr<Engine> create(std::shared_ptr<Device> device, EngineSpec spec,
                                        EngineOptions options = {});
  virtual ~Engine() = default;

  virtual const EngineSpec& spec() const = 0;
  virtual const std::shared_ptr<Device>& device() const = 0;

  /// Values of the engine's symbols for these input shapes (sizes in elements, in the order of the
  /// spec). Throws Error(kUser) that names the input, the dimension, its size and the allowed
  /// range.
  virtual std::vector<int64_t> bind_shapes(
      std::span<const std::vector<int64_t>> input_shapes) const = 0;

  /// Uploads the weights (in the order of spec().weights) and runs the weight program.
  virtual std::shared_ptr<const WeightSet> prepare_weights(std::span<const HostTensor> weights,
                                                           WeightSource source = {}) const = 0;

  /// Which weights' host memory sets keep reading, so that it must outlive them. That of the others
  /// may go once a set is made.
  virtual std::vector<bool> weights_in_place() const = 0;

  /// A set in which the weights with the indices in `changed` have new bytes: computes what depends
  /// on them and shares the rest with `old`. `old` itself does not change, so calls that use it may
  /// be running, and an error changes nothing.
  virtual std::shared_ptr<const WeightSet> update_weights(const WeightSet& old,
                                                          std::span<const HostTensor> weights,
                                                          std::span<const uint32_t> changed,
                                                          WeightSource source = {}) const = 0;
  /// Which weights `update_weights` will read; the others may have null data.
  virtual std::vector<bool> weights_read(const WeightSet& old,
                                         std::span<const uint32_t> changed) const = 0;

  /// Device bytes that a set holds: uploaded weights and results of the weight program, those that
  /// it shares with other sets included.
  virtual int64_t held_bytes(const WeightSet& weights) const = 0;
  /// The same, broken down by location.
  virtual WeightMemory weight_memory(const WeightSet& weights) const = 0;

  /// Runs the engine and waits. Inputs and outputs are in the order of the spec, with the sizes
  /// that follow from `symbols`. Thread-safe. Throws Error(kDevice) if the device is lost,
  /// OutOfMemoryError if it has too little memory, and BadValueError for indices out of range.
  ///
  /// `times`: how often the dispatches run, one run after another, in one submission unless that
  /// would take too long for the device's watchdog. Each run reads the inputs as the previous one
  /// has written them in place; outputs are those of the last run. An error is of the whole call.
  virtual void run(const WeightSet& weights, std::span<const int64_t> symbols,
                   std::span<const HostTensor> inputs, std::span<const HostTensor> outputs,
                   uint32_t times = 1) = 0;

  /// CUDA's number of the GPU that the engine runs on; -1 if it cannot share CUDA's memory.
  virtual int cuda_device() = 0;
  /// As `run`, on CUDA tensors, and without waiting: the run is ordered on `stream` (a cudaStream_t
  /// of that device), after the work that is there and before any that is added later. Returns the
  /// number of tensors that could not be shared and were copied on the device. Also throws
  /// Error(kDevice) while the stream is being captured.
  virtual int run_on_cuda(std::shared_ptr<const WeightSet> weights,
                          std::span<const int64_t> symbols, std::span<const CudaTensor> inputs,
                          std::span<const CudaTensor> outputs, void* stream,
                          uint32_t times = 1) = 0;

  /// Times each of EngineSpec::dispatches by the device's clock, alone between barriers, in `runs`
  /// runs. Inputs that are `written` are written `runs` times. Throws as `run`, and
  /// Error(kUnsupported) if the device has no timestamps.
  virtual std::vector<DispatchTime> time_dispatches(const WeightSet& weights,
                                                    std::span<const int64_t> symbols,
                                                    std::span<const HostTensor> inputs,
                                                    std::span<const HostTensor> outputs,
                                                    int runs) = 0;

  /// Counts since the engine was created.
  virtual EngineStats stats() const = 0;

  /// Size of the activation arena for `symbols`, in bytes.
  virtual int64_t arena_bytes(std::span<const int64_t> symbols) const = 0;
};

}  // namespace tv

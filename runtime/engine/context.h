#pragma once
// An execution context: the recordings of one call at a time, and what else it keeps. Its arena and
// staging memory are borrowed for each run (scratch_pool.h).

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/link.h"
#include "runtime/engine/call_clock.h"
#include "runtime/engine/cuda_operands.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/host_operands.h"
#include "runtime/engine/recordings.h"
#include "runtime/engine/weight_set.h"

namespace tv {

/// Whose calls a context serves: the host's, or those on one CUDA stream.
struct ContextKey {
  bool on_cuda = false;
  void* stream = nullptr;
  bool operator==(const ContextKey&) const = default;
};

CallStream stream_of(const ContextKey& key);

class Context {
 public:
  /// `timed`: `run` says where its time went.
  explicit Context(const EngineParts& parts, bool timed = false);
  Context(const Context&) = delete;
  ~Context();

  const ContextKey& key() const { return key_; }
  /// Makes the context another stream's; only where it is `idle`.
  void set_key(const ContextKey& key) { key_ = key; }
  /// The arena that it had last (ScratchUser::last_id).
  uint64_t last_arena() const { return arena_.last_id(); }
  /// True if nothing uses its memory, on whichever stream.
  bool idle() const;

  void run(const WeightSet& weights, std::span<const int64_t> symbols, const HostTensors& inputs,
           const HostTensors& outputs, uint32_t times = 1);

  /// The same on CUDA tensors, in the order of the key's stream; returns the number of tensors that
  /// were copied.
  int run_on_cuda(const std::shared_ptr<const WeightSet>& weights, std::span<const int64_t> symbols,
                  std::span<const CudaTensor> inputs, std::span<const CudaTensor> outputs,
                  CudaLink& link, uint32_t times = 1);

  /// Runs as `run` does, each dispatch alone; see Engine::time_dispatches.
  std::vector<DispatchTime> time_dispatches(const WeightSet& weights,
                                            std::span<const int64_t> symbols,
                                            const HostTensors& inputs, const HostTensors& outputs,
                                            int runs);

  /// Of the last `run` of a timed context.
  const CallTimes& times() const { return clock_.times(); }
  bool device_clock() const { return clock_.reads_device(); }

  /// The recording of the last run, for the hazard check and tests; null if it is gone.
  const Recording* last() const { return recordings_.last(); }
  uint64_t recorded() const { return recorded_; }
  uint64_t submitted() const { return submitted_; }
  /// Of the calls that recorded: from their start to the submission.
  double recording_us() const { return recording_us_; }

 private:
  struct Borrowed;
  void bind(const HostTensors& inputs, const HostTensors& outputs, const ShapePlan& plan);
  void borrow_arena(int64_t bytes);
  /// Borrows what `weights` are streamed through.
  void borrow_slots(const WeightSet& weights);
  /// Numbers of the memory that this run has borrowed.
  std::array<uint64_t, 4> memory() const;
  /// Whether `recording` was made with other weights or addresses than this call's.
  bool is_stale(const Recording& recording, const WeightSet& weights) const;
  EncodedProgram encoded(const ShapePlan& plan, const DebugModes& modes) const;
  std::vector<uint64_t> addresses_of(const ShapePlan& plan, const WeightSet& weights) const;

  void record(Recording& recording, const WeightSet& weights, bool external_overlap,
              CudaLink* link);
  /// What is submitted of a recording that streams weights. Copies wait for `after`, too.
  std::vector<SubmitBatch> batches(const Recording& recording, uint64_t after);
  /// Records the dispatches from `recording.commands` on; returns what the last are recorded into.
  VkCommandBuffer record_parts(Recording& recording, bool on_cuda);
  void record_begin(VkCommandBuffer commands, const ShapePlan& plan, bool staged_inputs);
  void record_end(VkCommandBuffer commands, const ShapePlan& plan);
  void check_recording(const Recording& recording) const;
  /// Records each dispatch of a profile by itself; returns the timestamps behind which each ran.
  std::vector<uint32_t> record_timed(VkCommandBuffer commands, const EncodedProgram& program,
                                     const Allocation& blocks, VkQueryPool timestamps,
                                     const StreamRecording& stream, const WeightSet& weights);

  /// Submits a recording of a call on host tensors and waits for it.
  void submit(Recording& recording);
  /// For an error after the submission of kernels: if these write over inputs in place, throws it
  /// as one that callers do not recover from, because computing the call again would write twice.
  void refuse_to_repeat(const std::exception& error) const;
  /// Throws what kernels reported in a call on CUDA tensors, once.
  void take_check_report();

  ContextKey key_;
  const EngineParts& parts_;
  Device& device_;
  Recordings recordings_;
  CallClock clock_;
  HostOperands host_;
  CudaOperands cuda_;
  ScratchUser arena_;
  WeightStream stream_;
  Allocation check_;                        ///< the kCheck buffer, where the engine has one
  GuardMemory guard_;                       ///< where kernels that are not trusted report
  std::vector<uint64_t> bound_;             ///< of this call: addresses of inputs, then outputs
  uint64_t submission_ = 0;                 ///< the last one
  std::shared_ptr<const WeightSet> using_;  ///< what that one reads, of a call on CUDA tensors
  uint64_t recorded_ = 0, submitted_ = 0;
  double recording_us_ = 0;
};

}  // namespace tv

#pragma once
// An execution context: the arena, the staging and the recordings of one call at a time.

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "runtime/commands/recorder.h"
#include "runtime/cuda/link.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/timed_calls.h"
#include "runtime/engine/weight_set.h"
#include "runtime/vulkan/timestamps.h"

namespace tv {

/// Everything about one set of symbol values that does not depend on addresses.
struct ShapePlan {
  std::vector<int64_t> symbols;
  EncodedProgram program;
  std::vector<Placement> placements;  ///< space 0: the arena
  std::vector<int64_t> input_bytes, output_bytes;
  /// What a staged device hands back: `bytes` from `arena_at` of the arena, through `host_at` of
  /// the readback memory, to the tensor of `slot` (inputs, then outputs).
  struct Result {
    size_t slot = 0;
    int64_t arena_at = 0, host_at = 0, bytes = 0;
  };
  std::vector<Result> results;
  int64_t readback_bytes = 0;
  /// Offsets in the arena of the device's copies of inputs, then outputs (staged devices).
  std::vector<int64_t> copy_offsets;
  int64_t activation_bytes = 0;  ///< of the memory plan
  int64_t arena_bytes = 0;       ///< with the copies
};

/// Throws Error(kUser) on symbols out of range.
ShapePlan plan_shape(const EngineParts& parts, std::span<const int64_t> symbols);

/// Whose calls a context serves: the host's, or those on one CUDA stream.
struct ContextKey {
  bool on_cuda = false;
  void* stream = nullptr;
  bool operator==(const ContextKey&) const = default;
};

class Context {
 public:
  /// `timed`: `run` says where its time went.
  explicit Context(const EngineParts& parts, bool timed = false);
  Context(const Context&) = delete;
  ~Context();

  const ContextKey& key() const { return key_; }
  /// Makes the context another stream's; only where it is `idle`.
  void set_key(const ContextKey& key) { key_ = key; }
  /// True where nothing uses its memory, on whichever stream.
  bool idle() const;

  void run(const WeightSet& weights, std::span<const int64_t> symbols,
           std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);

  /// Of the last `run` of a timed context.
  const CallTimes& times() const { return times_; }
  bool device_clock() const { return timed_ && !device_.profile().is_cpu(); }

  /// The same on CUDA tensors, in the order of the key's stream; returns the number of tensors that
  /// were copied.
  int run_on_cuda(const std::shared_ptr<const WeightSet>& weights, std::span<const int64_t> symbols,
                  std::span<const CudaTensor> inputs, std::span<const CudaTensor> outputs,
                  CudaLink& link);

  /// Runs as `run` does, each dispatch alone; see Engine::profile.
  std::vector<DispatchTime> profile(const WeightSet& weights, std::span<const int64_t> symbols,
                                    std::span<const HostTensor> inputs,
                                    std::span<const HostTensor> outputs, int runs);

  /// The recording of the last run, for the hazard check and tests.
  struct Recording {
    ShapePlan plan;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    /// Long engines: `parts` of these are submitted after `commands` (submissions.h).
    std::vector<VkCommandBuffer> more;
    size_t parts = 0;
    std::vector<uint64_t> addresses;  ///< of each EngineSpec::buffers
    std::vector<uint64_t> bound;      ///< inputs, then outputs, as recorded
    uint64_t weights_id = 0, arena_generation = 0, debug_generation = 0, last_used = 0;
    uint64_t submission = 0;  ///< the last one of `commands`
    bool on_cuda = false;
    bool external_overlap = false;  ///< what is written overlaps others: barriers everywhere
    bool poison = false;
    Allocation param_blocks;
    Timestamps marks;  ///< of a timed context: start, copies in, kernels, copies out
  };
  const Recording* last() const { return last_; }
  uint64_t recorded() const { return recorded_; }
  /// Of the calls that recorded: from their start to the submission.
  double recording_us() const { return recording_us_; }
  int64_t arena_bytes() const { return arena_.size_bytes(); }

 private:
  Recording& recording_for(std::span<const int64_t> symbols, bool on_cuda);
  /// Of the recordings for CUDA with the plan of `any`, the one for the addresses `bound_`, or one
  /// to record them in.
  Recording& recording_of_bound(Recording& any);
  Recording& add_recording(std::unique_ptr<Recording> fresh);
  void bind(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs,
            const ShapePlan& plan);
  EncodedProgram encoded(const ShapePlan& plan, const DebugModes& modes) const;
  std::vector<uint64_t> addresses_of(const ShapePlan& plan, const WeightSet& weights) const;
  void read_results(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs,
                    const ShapePlan& plan);
  /// True where the engine leaves the result in this tensor (inputs, then outputs).
  bool is_written(size_t slot) const;
  uint64_t bounce(size_t slot, const HostTensor& tensor);
  void record(Recording& recording, const WeightSet& weights, bool external_overlap,
              CudaLink* link);
  /// Records the dispatches from `recording.commands` on; returns what the last are recorded into.
  VkCommandBuffer record_parts(Recording& recording, bool cut);
  /// Submits a recording of a call on host tensors and waits for it.
  void submit(Recording& recording);
  void submit_parts(Recording& recording);
  /// After an error behind the submission of kernels: where these write over inputs in place,
  /// throws it as one that nobody recovers from, because to compute the call again would write
  /// twice.
  void refuse_to_repeat(const std::exception& error) const;
  /// Timestamps of a timed context; without a clock to read they do nothing.
  void start_marks(Recording& recording);
  static void mark(Recording& recording, VkCommandBuffer commands, uint32_t index);
  /// Submits and waits, taking the time.
  void submit_timed(Recording& recording);
  double us_since_start() const;
  /// Resolves CUDA's addresses into `bound_` and copies to `staging_` the inputs that cannot be
  /// shared.
  void bind_cuda(std::span<const CudaTensor> inputs, std::span<const CudaTensor> outputs,
                 CudaLink& link);
  void copy_staged(std::span<const CudaTensor> tensors, size_t first_slot, bool to_staging,
                   CudaLink& link);
  void copy_in(VkCommandBuffer commands, const ShapePlan& plan, bool staged_inputs);
  void copy_out(VkCommandBuffer commands, const ShapePlan& plan);
  void reserve_arena(int64_t bytes);
  void reserve_staging(const ShapePlan& plan);
  void check_recording(const Recording& recording) const;
  /// Throws what kernels reported in a call on CUDA tensors, once.
  void take_check_report();

  ContextKey key_;
  const EngineParts& parts_;
  Device& device_;
  OwnedCommandPool pool_;
  Allocation arena_, upload_, readback_;
  Allocation check_;  ///< the kCheck buffer, where the engine has one
  GuardMemory guard_;     ///< where kernels that are not trusted report
  uint64_t arena_generation_ = 0;  ///< also counts changes of the staging memory
  std::vector<Allocation>
      bounces_;                  ///< aligned stand-ins of caller's tensors, by input then output
  std::vector<uint64_t> bound_;  ///< scratch of `run`
  std::vector<std::unique_ptr<Recording>> recordings_;
  Recording* last_ = nullptr;
  uint64_t clock_ = 0, recorded_ = 0;
  double recording_us_ = 0;
  std::chrono::steady_clock::time_point started_;  ///< of the call
  bool timed_ = false;
  CallTimes times_;
  uint64_t submission_ = 0;                 ///< the last one
  std::shared_ptr<const WeightSet> using_;  ///< what that one reads
  SharedBuffer staging_;
  std::vector<int64_t> staged_at_;  ///< offset in staging_ by input, then output; -1: shared
  bool staged_outputs_ = false;     ///< copies on the stream may still read staging_
};

}  // namespace tv

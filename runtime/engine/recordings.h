#pragma once
// The command buffers that a context keeps for its next calls.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "runtime/commands/recorder.h"
#include "runtime/engine/shape_plan.h"
#include "runtime/engine/weight_stream.h"
#include "runtime/vulkan/timestamps.h"

namespace tv {

/// The commands of one shape, and what they were recorded with.
struct Recording {
  ShapePlan plan;
  uint32_t times = 1;  ///< the program is in it so often, one after the other
  VkCommandBuffer commands = VK_NULL_HANDLE;
  /// Long engines: `parts` of these are submitted after `commands` (submissions.h).
  std::vector<VkCommandBuffer> more;
  size_t parts = 0;
  std::vector<uint64_t> addresses;   ///< of each EngineSpec::buffers
  std::vector<uint64_t> bound;       ///< inputs, then outputs, as recorded
  std::array<uint64_t, 4> memory{};  ///< the arena, the staging memory and the slots that it names
  uint64_t weights_id = 0, debug_generation = 0, last_used = 0;
  uint64_t weights_made_by = 0;  ///< WeightSet::made_by
  uint64_t submission = 0;       ///< the last one of `commands`
  bool on_cuda = false;
  bool external_overlap = false;  ///< what is written overlaps others: barriers everywhere
  bool poison = false;
  Allocation param_blocks;
  StreamRecording stream;  ///< of the weights that are copied to the device as they are needed
  Timestamps marks;        ///< of a timed context: start, copies in, kernels, copies out
};

/// What a recording is asked for by.
struct RecordingKey {
  std::span<const int64_t> symbols;
  uint32_t times = 1;
  bool on_cuda = false;
};

/// The least recently used ones go. Not thread-safe.
class Recordings {
 public:
  explicit Recordings(const EngineParts& parts);

  /// One with a plan for the symbols, as the debug modes want it now. Throws as plan_shape does.
  Recording& find(const RecordingKey& key);
  /// Of those for CUDA that are like `any`, the one for the addresses `bound`, or one to record
  /// them in.
  Recording& find_bound(Recording& any, const std::vector<uint64_t>& bound);

  void mark_last(const Recording& recording) { last_ = &recording; }
  /// The one that was marked; null if it is gone.
  const Recording* last() const { return last_; }

  VkCommandBuffer new_commands() { return allocate_commands(device_, pool_.get()); }

 private:
  Recording& add(std::unique_ptr<Recording> fresh);

  const EngineParts& parts_;
  Device& device_;
  OwnedCommandPool pool_;
  std::vector<std::unique_ptr<Recording>> all_;
  const Recording* last_ = nullptr;
  uint64_t clock_ = 0;
};

}  // namespace tv

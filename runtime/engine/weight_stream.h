#pragma once
// How a context's calls bring weights that are streamed from host memory to the device: a queue
// that only copies, where the device has one, fills parts of the slots ahead of the segments that
// read them. Two timeline semaphores of the device order both ways, so that the host submits once
// and waits for nothing in between (docs/design/0028-weight-streaming.md).

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "runtime/commands/recorder.h"
#include "runtime/engine/weight_set.h"
#include "runtime/vulkan/scratch_pool.h"

namespace tv {

/// What a recording has for the weights that it streams.
struct StreamRecording {
  std::shared_ptr<const StreamPlan> plan;     ///< null: nothing is streamed
  std::vector<StreamPlan::Segment> segments;  ///< those that have dispatches at this shape
  std::vector<size_t> starts;                 ///< of each, into EncodedProgram::dispatches
  std::vector<size_t> reuse;                  ///< reuse_distances
  std::vector<MovedBuffer> moved;             ///< addresses in the slots
  std::vector<VkCommandBuffer> copies;        ///< by segment, those that were needed so far
  std::vector<size_t> pieces;  ///< by command buffer of launches: its segment, counted over turns

  /// The segment of a dispatch, both as they are numbered here.
  size_t at(size_t dispatch) const {
    const auto next = std::ranges::upper_bound(starts, dispatch);
    return static_cast<size_t>(next - starts.begin()) - 1;
  }
};

class WeightStream {
 public:
  /// `own`: the slots are this user's alone; stale contents are not visible to other users.
  WeightStream(Device& device, bool own);

  /// Borrows slots for what `weights` stream, until `give_back`.
  void borrow(const WeightSet& weights, const CallStream& stream);
  void give_back() noexcept { slots_.give_back(); }
  uint64_t id() const { return slots_.id(); }  ///< of the slots, as ScratchUser::id

  /// Which segments there are in `program`, and where its dispatches find what they read.
  void plan(StreamRecording& recording, const WeightSet& weights, const EngineSpec& spec,
            const EncodedProgram& program) const;
  /// Records each segment's copies into a command buffer of its own.
  void record(StreamRecording& recording, const WeightSet& weights);
  /// Records the copies of one segment between launches, with the barriers that they need.
  void record_between(VkCommandBuffer commands, const StreamPlan::Segment& segment,
                      const WeightSet& weights) const;
  /// What is submitted for `launches`, of `turns` turns. Copies wait for `after`, too, where they
  /// do not wait for launches of this call.
  static std::vector<SubmitBatch> batches(const StreamRecording& recording,
                                          std::span<const VkCommandBuffer> launches, size_t turns,
                                          uint64_t after);

 private:
  void record_copies(VkCommandBuffer commands, const StreamPlan::Segment& segment,
                     const WeightSet& weights) const;

  Device& device_;
  ScratchUser slots_;
  OwnedCommandPool pool_;  ///< made at the first use
};

}  // namespace tv

#include "runtime/engine/weight_stream.h"

#include <algorithm>

namespace tv {

WeightStream::WeightStream(Device& device, bool own)
    : device_(device), slots_(device.slots(), own) {}

void WeightStream::borrow(const WeightSet& weights, const CallStream& stream) {
  if (weights.stream()) slots_.borrow(weights.stream()->slot_bytes, stream);
}

void WeightStream::plan(StreamRecording& recording, const WeightSet& weights,
                        const EngineSpec& spec, const EncodedProgram& program) const {
  recording.plan = weights.stream();
  recording.segments.clear();
  recording.starts.clear();
  recording.moved.clear();
  recording.pieces.clear();
  if (!recording.plan) return;
  const std::vector<StreamPlan::Segment>& all = recording.plan->segments;
  size_t segment = all.size();  // of the last dispatch
  for (size_t i = 0; i < program.dispatches.size(); ++i) {
    const size_t dispatch = program.dispatches[i].dispatch;
    const auto next = std::ranges::upper_bound(all, dispatch, {}, &StreamPlan::Segment::first);
    const auto here = static_cast<size_t>(next - all.begin()) - 1;
    if (here != segment) {
      recording.segments.push_back(all[here]);
      recording.starts.push_back(i);
      segment = here;
    }
    for (const OperandRange& operand : spec.dispatches[dispatch].operands) {
      const auto& copies = all[here].copies;
      const auto copy = std::ranges::find(copies, operand.buffer, &StreamPlan::Copy::buffer);
      if (copy == copies.end()) continue;
      recording.moved.push_back({static_cast<uint32_t>(i), operand.buffer,
                                 slots_.memory().address() + static_cast<uint64_t>(copy->at)});
    }
  }
  recording.reuse = reuse_distances(recording.segments);
}

void WeightStream::record_copies(VkCommandBuffer commands, const StreamPlan::Segment& segment,
                                 const WeightSet& weights) const {
  for (const StreamPlan::Copy& copy : segment.copies) {
    const auto [source, offset] = weights.host_copy(copy.buffer);
    const VkBufferCopy region{static_cast<VkDeviceSize>(offset), static_cast<VkDeviceSize>(copy.at),
                              static_cast<VkDeviceSize>(copy.bytes)};
    device_.api().vkCmdCopyBuffer(commands, source, slots_.memory().buffer(), 1, &region);
  }
}

void WeightStream::record(StreamRecording& recording, const WeightSet& weights) {
  if (!recording.plan) return;
  if (!pool_) pool_ = device_.make_command_pool(/*transfer=*/true);
  while (recording.copies.size() < recording.segments.size())
    recording.copies.push_back(allocate_commands(device_, pool_.get()));
  for (size_t s = 0; s < recording.segments.size(); ++s) {
    if (recording.segments[s].copies.empty()) continue;
    begin_commands(device_, recording.copies[s], /*resubmit=*/true);  // each turn submits them
    record_copies(recording.copies[s], recording.segments[s], weights);
    end_commands(device_, recording.copies[s]);
  }
}

void WeightStream::record_between(VkCommandBuffer commands, const StreamPlan::Segment& segment,
                                  const WeightSet& weights) const {
  if (segment.copies.empty()) return;
  constexpr BarrierScope kShaderReads = {VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                         VK_ACCESS_SHADER_READ_BIT};
  record_barrier(device_, commands, kShaderReads, kCopyWrites);
  record_copies(commands, segment, weights);
  record_barrier(device_, commands, kCopyWrites, kShaderAccess);
}

std::vector<SubmitBatch> WeightStream::batches(const StreamRecording& recording,
                                               std::span<const VkCommandBuffer> launches,
                                               size_t turns, uint64_t after) {
  const size_t count = recording.segments.size(), all = count * turns;
  std::vector<SubmitBatch> batches;
  size_t next = 0;  // whose copies are to be submitted
  for (size_t piece = 0; piece < launches.size(); ++piece) {
    const size_t segment = recording.pieces[piece];
    const bool first = piece == 0 || recording.pieces[piece - 1] != segment;
    const bool last = piece + 1 == launches.size() || recording.pieces[piece + 1] != segment;
    // On one queue this order is the one in which they run: the copies of the next segment, where
    // they need not wait for this one, are put before its launches.
    for (; first && next < all && next <= segment + 1; ++next) {
      const size_t reuse = recording.reuse[next % count];
      if (next > segment && next >= reuse && next - reuse >= segment) break;
      if (reuse == 0) continue;  // nothing is copied
      SubmitBatch copy{.commands = recording.copies[next % count], .transfer = true};
      if (next >= reuse)
        copy.wait = next - reuse + 1;
      else
        copy.after = after;
      copy.signal = next + 1;
      batches.push_back(copy);
    }
    SubmitBatch batch{.commands = launches[piece]};
    if (first && recording.reuse[segment % count] > 0) batch.wait = segment + 1;
    if (last) batch.signal = segment + 1;
    batches.push_back(batch);
  }
  return batches;
}

}  // namespace tv

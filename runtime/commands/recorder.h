#pragma once
// From an encoded program to a command buffer.

#include <functional>
#include <span>

#include "runtime/commands/encoder.h"
#include "runtime/commands/pipelines.h"

namespace tv {

/// Writes the absolute addresses into `program.params`. `moved`, in the order of dispatches, goes
/// before `buffer_addresses`.
void patch_addresses(EncodedProgram& program, std::span<const uint64_t> buffer_addresses,
                     std::span<const MovedBuffer> moved = {});
/// Where a dispatch finds a buffer; `moved` as above.
uint64_t address_for(uint32_t dispatch, uint32_t buffer, std::span<const uint64_t> buffer_addresses,
                     std::span<const MovedBuffer> moved);

/// Bytes of memory that the parameter blocks of `program` take.
int64_t param_block_bytes(const EncodedProgram& program);

/// Part of EncodedProgram::dispatches.
struct DispatchRange {
  size_t first = 0, end = SIZE_MAX;
  bool next_submission = false;  ///< it begins a command buffer of its own
};

/// Records the dispatches and their barriers into `commands`, which is being recorded.
/// `param_blocks` (host-visible, param_block_bytes large) receives the parameter blocks.
/// Writes a timestamp into `timestamps`, where given, before the first and after each dispatch,
/// from `query` on.
void record_dispatches(Device& device, VkCommandBuffer commands, const EncodedProgram& program,
                       const std::vector<SharedPipeline>& pipelines, const Allocation& param_blocks,
                       VkQueryPool timestamps = VK_NULL_HANDLE, DispatchRange range = {},
                       uint32_t query = 0);

/// One memory barrier between pipeline stages.
struct BarrierScope {
  VkPipelineStageFlags stage;
  VkAccessFlags access;
};
void record_barrier(Device& device, VkCommandBuffer commands, BarrierScope before,
                    BarrierScope after);

inline constexpr BarrierScope kShaderWrites = {VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                               VK_ACCESS_SHADER_WRITE_BIT};
inline constexpr BarrierScope kShaderAccess = {
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
inline constexpr BarrierScope kCopyWrites = {VK_PIPELINE_STAGE_TRANSFER_BIT,
                                             VK_ACCESS_TRANSFER_WRITE_BIT};
inline constexpr BarrierScope kCopyReads = {VK_PIPELINE_STAGE_TRANSFER_BIT,
                                            VK_ACCESS_TRANSFER_READ_BIT};
inline constexpr BarrierScope kHostReads = {VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT};

/// A command buffer of `pool`, freed with the pool.
VkCommandBuffer allocate_commands(Device& device, VkCommandPool pool);
/// `resubmit`: the commands may be submitted again before they are done.
void begin_commands(Device& device, VkCommandBuffer commands, bool resubmit = false);
void end_commands(Device& device, VkCommandBuffer commands);

/// Runs what `record` puts into a command buffer, once, and waits.
void run_once(Device& device, const std::function<void(VkCommandBuffer)>& record);

}  // namespace tv

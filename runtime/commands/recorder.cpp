#include "runtime/commands/recorder.h"

#include <algorithm>
#include <cstring>

namespace tv {

uint64_t address_for(uint32_t dispatch, uint32_t buffer, std::span<const uint64_t> buffer_addresses,
                     std::span<const MovedBuffer> moved) {
  auto at = std::ranges::lower_bound(moved, dispatch, {}, &MovedBuffer::dispatch);
  for (; at != moved.end() && at->dispatch == dispatch; ++at) {
    if (at->buffer == buffer) return at->address;
  }
  return buffer_addresses[buffer];
}

void patch_addresses(EncodedProgram& program, std::span<const uint64_t> buffer_addresses,
                     std::span<const MovedBuffer> moved) {
  for (const AddressFix& fix : program.fixes) {
    const uint64_t address = address_for(fix.dispatch, fix.buffer, buffer_addresses, moved) +
                             static_cast<uint64_t>(fix.offset);
    std::memcpy(program.params.data() + fix.at, &address, sizeof(address));
  }
}

int64_t param_block_bytes(const EncodedProgram& program) {
  for (const EncodedDispatch& d : program.dispatches) {
    if (d.param_block || d.guarded) return static_cast<int64_t>(program.params.size());
  }
  return 0;
}

void record_dispatches(Device& device, VkCommandBuffer commands, const EncodedProgram& program,
                       const std::vector<SharedPipeline>& pipelines, const Allocation& param_blocks,
                       VkQueryPool timestamps, DispatchRange range, uint32_t query) {
  const DeviceApi& api = device.api();
  VkPipeline bound = VK_NULL_HANDLE;
  if (param_blocks && param_blocks.host()) {
    std::memcpy(param_blocks.host(), program.params.data(), program.params.size());
    param_blocks.flush();
  }
  const auto write_timestamp = [&] {
    if (timestamps == VK_NULL_HANDLE) return;
    api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timestamps, query++);
  };
  write_timestamp();
  const size_t end = std::min(range.end, program.dispatches.size());
  for (size_t i = range.first; i < end; ++i) {
    const EncodedDispatch& d = program.dispatches[i];
    if (d.barrier_before) record_barrier(device, commands, kShaderWrites, kShaderAccess);
    const VkPipeline pipeline = pipelines[d.pipeline].get();
    if (pipeline != bound) {
      api.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
      bound = pipeline;
    }
    if (d.param_block || d.guarded) {
      const uint64_t address = param_blocks.address() + (d.guarded ? d.guard_at : d.params_at);
      api.vkCmdPushConstants(commands, device.pipeline_layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             sizeof(address), &address);
    } else if (d.params_bytes > 0) {
      api.vkCmdPushConstants(commands, device.pipeline_layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             d.params_bytes, program.params.data() + d.params_at);
    }
    api.vkCmdDispatch(commands, d.grid[0], d.grid[1], d.grid[2]);
    write_timestamp();
  }
}

void record_barrier(Device& device, VkCommandBuffer commands, BarrierScope before,
                    BarrierScope after) {
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = before.access;
  barrier.dstAccessMask = after.access;
  device.api().vkCmdPipelineBarrier(commands, before.stage, after.stage, 0, 1, &barrier, 0, nullptr,
                                    0, nullptr);
}

VkCommandBuffer allocate_commands(Device& device, VkCommandPool pool) {
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  const DeviceApi& api = device.api();
  device.check(api.vkAllocateCommandBuffers(api.device, &info, &commands), "record");
  return commands;
}

void begin_commands(Device& device, VkCommandBuffer commands, bool resubmit) {
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  if (resubmit) info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  device.check(device.api().vkBeginCommandBuffer(commands, &info), "record");
}

void end_commands(Device& device, VkCommandBuffer commands) {
  device.check(device.api().vkEndCommandBuffer(commands), "record");
}

void run_once(Device& device, const std::function<void(VkCommandBuffer)>& record) {
  const OwnedCommandPool pool = device.make_command_pool();
  const VkCommandBuffer commands = allocate_commands(device, pool.get());
  begin_commands(device, commands);
  record(commands);
  end_commands(device, commands);
  device.wait(device.submit(commands));
}

}  // namespace tv

#pragma once
// Compute pipelines of an engine.

#include <vector>

#include "runtime/commands/guard_blocks.h"
#include "runtime/spec/engine_spec.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {

/// The pipelines of `spec`, in its order: those that the device has, and the others made by several
/// threads. Throws Error(kDevice) naming the first dispatch that uses a pipeline the driver
/// refuses, Error(kUser) on a kernel that `guard` cannot bound, and DeviceLostError on a lost
/// device.
std::vector<SharedPipeline> create_pipelines(Device& device, const EngineSpec& spec,
                                             const GuardPlan& guard = {},
                                             WhenUnused when_unused = WhenUnused::kKeep);

/// The pipelines of `spec`, those of large kernels first: what takes long should not be what
/// threads that have made all others wait for.
std::vector<uint32_t> order_of_creation(const EngineSpec& spec);

/// Pipeline `index` of `spec`, on its own.
SharedPipeline create_pipeline(Device& device, const EngineSpec& spec, uint32_t index,
                               const GuardPlan& guard = {});

/// Runs one workgroup of one dispatch of each pipeline on scratch memory: lavapipe compiles a
/// shader when it is first dispatched, and this leaves nothing of that for the first call. Those
/// that were run before are left out.
void warm_pipelines(Device& device, const EngineSpec& spec,
                    const std::vector<SharedPipeline>& pipelines, const GuardPlan& guard = {});

}  // namespace tv

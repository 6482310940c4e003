#pragma once
// Compute pipelines of an engine.

#include <vector>

#include "runtime/commands/guard_blocks.h"
#include "runtime/spec/engine_spec.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {

/// The pipelines of `spec`, in its order; made by several threads. Throws Error(kDevice) naming the
/// first dispatch that uses a pipeline the driver refuses, and Error(kUser) on a kernel that
/// `guard` cannot bound.
std::vector<OwnedPipeline> create_pipelines(Device& device, const EngineSpec& spec,
                                            const GuardPlan& guard = {});

/// Pipeline `index` of `spec`, on its own.
OwnedPipeline create_pipeline(Device& device, const EngineSpec& spec, uint32_t index,
                              const GuardPlan& guard = {});

/// Runs one workgroup of one dispatch of each pipeline on scratch memory: lavapipe compiles a
/// shader when it is first dispatched, and this leaves nothing of that for the first call.
void warm_pipelines(Device& device, const EngineSpec& spec,
                    const std::vector<OwnedPipeline>& pipelines, const GuardPlan& guard = {});

}  // namespace tv

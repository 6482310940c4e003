#pragma once
// Address space that drivers may take (runtime/base/room.h). Where their own allocations fail they
// end the process, or work without some threads for good.

#include <cstddef>

#include "runtime/vulkan/device_profile.h"

namespace tv {

/// What a driver may take to open a device: its compiler and, on a CPU, the stacks of two sets of
/// threads.
size_t opening_bytes(const DeviceProfile& profile);

/// What a driver may take to make a pipeline, or to compile a kernel when it is first launched.
inline constexpr size_t kPipelineBytes = size_t{64} << 20;

/// Throws OutOfMemoryError where there is no room for one more.
void require_pipeline_room();

}  // namespace tv

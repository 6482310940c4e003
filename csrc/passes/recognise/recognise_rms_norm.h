#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// x · rsqrt(mean(x²) + eps) over the last dimension, in float32, becomes aten::rms_norm without a
/// weight, which is one kernel; casts before it and products with a weight behind it fuse into it.
/// The result differs by the order of the sum alone. Pieces that somebody else reads (a gradient
/// does) stay. Runs on ATen's operators.
Graph recognise_rms_norm(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

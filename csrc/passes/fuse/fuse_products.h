#pragma once

#include "csrc/graph/graph.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Products of few rows with weights (tv::matmul, tv::matmul_quantised) take in the RMS norm that
/// only they read, and the pointwise program that only reads the two halves of their columns, as
/// that of a gated feed-forward part does: tv::matmul_rows, one launch. For GPUs, where a launch
/// costs more than to normalise the row once for each workgroup. Runs after fuse.
Graph fuse_products(Graph graph, const DeviceProfile& device);

}  // namespace tv

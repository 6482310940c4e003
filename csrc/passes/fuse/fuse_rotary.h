#pragma once

#include "csrc/graph/graph.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Rotary embeddings (tv::rotary, tv::rotary_pair) take in the RMS norms of rows that only they
/// read, as norms of queries and keys are: argument eps, the program of a normalised element, and
/// for x and x2 the vectors that it reads (x_vectors, x2_vectors). For GPUs, where a launch costs
/// more than to normalise in each workgroup. Runs after fuse.
Graph fuse_rotary(Graph graph, const DeviceProfile& device);

}  // namespace tv

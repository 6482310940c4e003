#pragma once

#include "csrc/graph/graph.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Merges tv::pointwise nodes into larger programs and attaches them to other operators: as the
/// epilogue of the operator whose result they read, or as the prologue of the one that reads their
/// result. Runs after choose_layouts. Nodes that depend on weights alone are never merged into
/// others, so that they stay in the weight program.
Graph fuse(Graph graph, const DeviceProfile& device);

}  // namespace tv

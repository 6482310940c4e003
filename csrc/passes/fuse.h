#pragma once

#include "csrc/graph/graph.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Merges tv::pointwise nodes into larger programs and attaches them to anchors: as the tail
/// (Node::epilogue) of the operator whose result they finish, or as the head (Node::prologue) of
/// the one that reads theirs. Runs after choose_layouts. What depends on weights alone is never
/// drawn into what does not, so that it stays in the weight program.
Graph fuse(Graph graph, const DeviceProfile& device);

}  // namespace tv

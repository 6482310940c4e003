#pragma once
// Rewrites ATen's operators into the few forms that the later passes handle.

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Applies `expand` converters until none is left, then turns the nodes of `pointwise` converters
/// into "tv::pointwise" nodes of one instruction each over the tensor list "inputs". Nodes made
/// keep the source, module path and operator (fused_ops) of the node they stand for. Throws
/// Error(kInternal) where a converter's result does not fit the node that it replaces.
Graph canonicalise(Graph graph, const Settings& settings, const DeviceProfile& device);

/// Applies the `expand` converters that translate another library's operators
/// (Converter::translates), and no others.
Graph translate(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

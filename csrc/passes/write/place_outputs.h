#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Lets nodes write directly to where their results are needed, which removes concatenations and
/// copies of permuted results: the result's Value::view is then a part of the storage that took the
/// copy. Done only if every node concerned keeps its tactic. Runs after `fuse`, when it is known
/// which copies are left.
Graph place_outputs(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

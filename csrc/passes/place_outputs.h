#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Lets nodes write where their results are needed, so that concatenations and copies of permuted
/// results vanish: the result's Value::view then names a part of the storage of what took the copy.
/// Only where the tactic of every node concerned stays the one that it would have been. Runs last.
Graph place_outputs(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

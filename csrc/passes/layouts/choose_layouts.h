#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Turns view operators into Value::view and drops their nodes; copies (tv::copy) where a consumer
/// cannot read a view, a view cannot be expressed, or a graph output must be in a storage of its
/// own. Afterwards every graph output is a node's value, or a view that permutes the whole of one,
/// and no two share a storage.
Graph choose_layouts(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

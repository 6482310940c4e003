#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Gives each value that is written over an input (GraphOutput::over) its place in that input's
/// memory. What replaces a part of the input (slice_scatter, index_put, …, also several of them one
/// after the other or inside each other) then stores that part alone, where nobody reads the older
/// contents afterwards; a value that one node makes without reading the input is stored there by
/// it; any other is copied there behind the last node. Runs last: other passes take nodes for
/// functions.
Graph write_in_place(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

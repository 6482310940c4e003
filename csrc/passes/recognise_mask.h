#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// A mask of attention, of bools or of 0 and -infinity, that compares the places of queries and
/// keys
/// - a key is not behind the query, and in a window before it - becomes the number that it is made
/// of: the first query's place. What else it hides, as padding, stays a mask. For operators whose
/// converter says that it gains from that.
Graph recognise_mask(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

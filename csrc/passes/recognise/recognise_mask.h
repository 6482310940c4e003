#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// A mask of attention that compares the places of queries and keys - a key is not behind the
/// query, and in a window before it - becomes the number that it is made of: the first query's
/// place. It may be of bools, of 0 and -infinity, or of 0 and the lowest finite float32 or
/// bfloat16. What else it hides, as padding, stays a mask; of the last kind there must be none, and
/// places are checked to be among the keys'. For operators whose converter says that it gains from
/// that.
Graph recognise_mask(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

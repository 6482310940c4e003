#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Keys that are rotated (tv::rotary_pair) only to be written to a cache, together with the values
/// (tv::in_place_index_put_pair): the launch that rotates them writes both (tv::rotary_write). Runs
/// after merge_cache_writes.
Graph write_rotated(Graph graph);

}  // namespace tv

#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Keys that are rotated (tv::rotary_pair) to be written to one position of a cache alone, with the
/// values beside them (tv::in_place_index_put_pair), are written there by the launch that rotates
/// them: tv::rotary_write. Runs after merge_cache_writes.
Graph write_rotated(Graph graph);

}  // namespace tv

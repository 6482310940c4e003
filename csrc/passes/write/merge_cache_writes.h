#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Two writes of one entry each (tv::in_place_index_put) at the same indices, as keys and values of
/// a cache are, become one tv::in_place_index_put_pair, where the first can as well be done at the
/// second's place. Runs after write_in_place.
Graph merge_cache_writes(Graph graph);

}  // namespace tv

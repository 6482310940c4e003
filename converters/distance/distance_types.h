#pragma once
// Types of distances between points.

#include "csrc/types/types.h"

namespace tv::types {

/// Two sets of points.
void distances(NodeTypes& t);
void distances_of_pairs(NodeTypes& t);

}  // namespace tv::types

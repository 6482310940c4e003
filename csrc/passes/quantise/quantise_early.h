#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Quantises before what moves elements, or takes the largest of some (Converter::moves), in place
/// of behind it, where what makes the numbers can quantise them as it stores them: then less is
/// moved, and parts of a join are rescaled one by one. What is computed of each element on the way
/// to the quantisation, as by relu, goes with it. Results are the same to the bit.
Graph quantise_early(Graph graph);

}  // namespace tv

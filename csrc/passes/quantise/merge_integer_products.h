#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Makes products of one quantised input with several quantised constants - query, key and value -
/// one product with all of them beside one another, of which each reader has its columns. They are
/// what multiply_integers takes; so sums are exact, and results the same to the bit. Products whose
/// results are quantised are left alone: each stores bytes by a scale of its own, and one for all
/// would store floats, which a launch for each would quantise.
Graph merge_integer_products(Graph graph);

}  // namespace tv

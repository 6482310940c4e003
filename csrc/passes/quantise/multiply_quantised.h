#pragma once

#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/passes/quantise/multiply_integers.h"
#include "csrc/passes/quantise/quantised_outcomes.h"

namespace tv {

/// Makes products and embeddings read quantised weights as they are packed: a product with
/// tv::dequantize of constants (transposed or cast on the way) becomes tv::matmul_quantised, which
/// dequantises what it loads, and rows of an embedding are looked up before they are dequantised.
/// Products of the same rows become one, as merge_matmuls makes of others.
/// What else reads one makes it part of the weight program, whose results are held as floats.
/// `outcomes`, where given, gets one of each tv::dequantize that is left, and of each of
/// `integers`.
Graph multiply_quantised(Graph graph, std::vector<QuantisedOutcome>* outcomes = nullptr,
                         const IntegerReads& integers = {});

}  // namespace tv

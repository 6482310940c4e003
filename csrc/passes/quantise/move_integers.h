#pragma once

#include "csrc/graph/graph.h"
#include "csrc/passes/quantise/multiply_integers.h"

namespace tv {

/// Lets what moves elements, or takes the largest of some (Converter::moves), do so with the 8-bit
/// integers of quantised tensors of one scale, which are dequantised behind it: a view, a join of
/// tensors of one scale, a pool of the largest has integers then. Removes what quantises floats
/// that were just dequantised by the same scale and zero point. Results are the same to the bit.
/// `reads`, where given, gets the operators that move the integers of each tensor.
Graph move_integers(Graph graph, IntegerReads* reads = nullptr);

}  // namespace tv

#pragma once

#include "csrc/graph/graph.h"
#include "csrc/passes/quantise/multiply_integers.h"

namespace tv {

/// Operators that move elements, or take the largest of some (Converter::moves), do so on the 8-bit
/// integers of quantised tensors, and their result is dequantised: views, joins of tensors that
/// have one scale, max pools. Operators that quantise floats which were just dequantised by the
/// same scale and zero point are removed. Results are the same to the bit.
/// `reads`, where given, gets the operators that move the integers of each tensor.
Graph move_integers(Graph graph, IntegerReads* reads = nullptr);

}  // namespace tv

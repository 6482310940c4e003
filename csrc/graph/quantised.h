#pragma once
// Quantised tensors in the Graph: what tv::dequantize reads.

#include "csrc/graph/graph.h"

namespace tv {

/// The arguments of tv::dequantize(input, scale?, zero_point?, bits): (input - zero_point) · scale,
/// computed in float32 and rounded once to the result's dtype.
///
/// `scale` and `zero_point` have one element for each block of the result: they are of its rank,
/// and each size is 1 or divides the result's. bits 8: `input` holds an integer an element. bits 4:
/// it is uint8 with two elements a byte along the last dimension, the first in the low half, 0 to
/// 15; without a zero point 8 is subtracted.
struct Quantised {
  ValueId input = kNoValue, scale = kNoValue, zero_point = kNoValue;
  int64_t bits = 8;
};

inline Quantised quantised_of(const Node& node) {
  return {node.input("input"), node.input("scale"), node.input("zero_point"), node.integer("bits")};
}

/// They as arguments of a node.
inline std::vector<Arg> arguments_of(const Quantised& q) {
  return {tensor_arg("input", q.input), tensor_arg("scale", q.scale),
          tensor_arg("zero_point", q.zero_point), attr_arg("bits", Expr(q.bits))};
}

}  // namespace tv

#pragma once
// Tensors of dequantised integers, as products and convolutions read them.

#include <optional>

#include "csrc/graph/quantised.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/rewriter.h"

namespace tv {

/// The nodes between a tv::dequantize of 8-bit integers and a reader of its floats: views, casts
/// and copies, that can be applied to the integers as well.
struct IntegerOperand {
  const Node* dequantize = nullptr;
  std::vector<const Node*> views;  ///< from the dequantize on
};

/// `value` as such; nullopt where it is not.
std::optional<IntegerOperand> integer_operand(const Graph& graph, const Makers& makers,
                                              ValueId value);

/// The integers in the shape that the operand's reader has them in, with scale and zero point of
/// the same rank; nullopt where a view splits or joins what has one scale. Adds nodes.
std::optional<Quantised> viewed(Rewriter& rw, const IntegerOperand& operand);

/// Whether `viewed` would give them, and the shape that scales and zero points then have.
std::optional<Shape> viewed_blocks(const Graph& graph, const IntegerOperand& operand);

}  // namespace tv

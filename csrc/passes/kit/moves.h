#pragma once
// Nodes that move elements (Converter::moves), as passes ask about them.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "csrc/converter.h"

namespace tv {

/// Whether a node's operator moves its input's elements in one of these ways.
inline bool moves(const Node& node, std::initializer_list<Moves> ways) {
  return std::ranges::find(ways, moves_of(node.op)) != ways.end();
}

/// Whether a node hands its input on, but for layout and dtype.
inline bool keeps_values(const Node& node) { return moves(node, {Moves::kCopies, Moves::kCasts}); }

/// Whether row-major elements stay as they are.
inline bool keeps_order(const Node& node) {
  return moves(node, {Moves::kCopies, Moves::kReshapes});
}

/// The order of dimensions that a permuting node gives: result dimension i is the input's [i].
std::optional<std::vector<int64_t>> permutation(const Graph& graph, const Node& node);

/// The number that a node pads by (Moves::kPads); nullopt where it is a tensor or a symbol.
std::optional<double> padding_of(const Node& node);
/// Makes a node pad by this argument, `value`: a number, or a tensor of one element.
void pad_by(Node& node, Arg value);

/// Whether each window of a node that takes the largest of windows holds an element of its input:
/// what would be in others is not the same of floats and of integers.
bool has_no_empty_window(const Node& node);

}  // namespace tv

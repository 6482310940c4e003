#pragma once
// Quantised tensors that graphs spell out.

#include <optional>
#include <set>
#include <vector>

#include "csrc/graph/quantised.h"

namespace tv {

/// What a value is made of: `q.input` in the shape `shape`, scales and zero points in the shape
/// `blocks`, whatever shapes they have.
struct QuantisedPieces {
  Quantised q;
  Shape shape, blocks;
};

/// A graph as quantised_pieces reads it.
struct PiecesGraph {
  const Graph& graph;
  const std::vector<Node>& nodes;
  const std::vector<int32_t>& made_by;
  const std::vector<bool>& constant;

  const Node* maker(ValueId value) const;
};

/// The parts of `value` if it is (input - zero_point) · scale of constant 8-bit integers, or the
/// numbers of constant codes times a scale, with casts and views in between, as torchao's
/// decompositions and hand-written modules have it.
std::optional<QuantisedPieces> quantised_pieces(const PiecesGraph& graph, ValueId value);

/// Values that the graph's outputs depend on.
std::set<ValueId> live_values(const Graph& graph);

}  // namespace tv

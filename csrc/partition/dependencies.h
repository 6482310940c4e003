#pragma once
// What must run before what.

#include "csrc/graph/graph.h"
#include "csrc/partition/merge.h"

namespace tv {

/// True for an operator whose output is a view of its first input.
bool is_view(const Node& node);

/// True for a node that counts: one whose operator has no converter counts too.
bool does_work(const Node& node);

/// True for a native node that gives the GPU nothing to compute (importers say so by an attribute
/// `host`): between engines it costs no switch.
bool runs_on_host(const Node& node);

/// The nodes with an edge for each value read, and for order beyond data: a node that mutates a
/// tensor runs after earlier readers of its memory and before later ones, and nodes with an effect
/// of their own (random numbers, assertions, operators of other libraries) keep their order.
/// "native::…" is what an importer could not express: it orders their effects with values.
Dag execution_order(const Graph& graph);

}  // namespace tv

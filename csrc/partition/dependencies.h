#pragma once
// What must run before what.

#include "csrc/graph/graph.h"
#include "csrc/partition/merge.h"

namespace tv {

/// True for an operator whose output is a view of its first input.
bool is_view(const Node& node);

/// True for a node that counts: one whose operator has no converter counts too.
bool does_work(const Node& node);

/// The same by what the node is in the model (Origin::op and Origin::free), as frontends report it.
bool does_work_in_model(const Node& node);

/// The nodes that read or wait for each value.
std::vector<std::vector<int32_t>> waiting_nodes(const Graph& graph);

/// The nodes with an edge for each value read or waited for, and for order beyond data: a node that
/// mutates a tensor runs after earlier readers of its memory and before later ones, and nodes with
/// an effect of their own (Origin::effect, operators of unknown libraries) keep their order.
Dag execution_order(const Graph& graph);

}  // namespace tv

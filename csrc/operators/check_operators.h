#pragma once
// What converters take for granted of a Graph: each node has the arguments of its operator's
// schema, and its operands and results the shapes that the operator gives.

#include <string>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// Throws Error(kUser), which names the node, for what does not fit. What depends on sizes is put
/// into `demands`. Left out are nodes that the frontend refuses (Origin::refusal), and the types of
/// operators that nobody has a converter for, or that users add without types (Converter::types).
void check_operators(const Graph& graph, std::vector<Condition>& demands);

/// The second half of it, for nodes that leave out arguments that nobody reads.
void check_types(const Graph& graph, std::vector<Condition>& demands);

/// Whether the types of an operator's nodes are checked, by a rule or as a pointwise operator.
bool has_type_rule(const std::string& op);

}  // namespace tv

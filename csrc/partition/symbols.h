#pragma once
// Which symbols a part of a graph uses, and which dimensions determine them.

#include <set>

#include "csrc/graph/graph.h"

namespace tv {

/// Symbols of the sizes, views and attributes of `nodes` (indices into the graph).
std::set<int32_t> used_symbols(const Graph& graph, const std::vector<int32_t>& nodes);

/// Takes from `wanted` the symbols that some dimension of `value` determines (Expr::solve).
void drop_bound(std::set<int32_t>& wanted, const Value& value);

/// Graph inputs that determine what `wanted` still holds, each needed, in graph order; takes from
/// `wanted` what they determine. Reading their shapes is enough: no kernel touches their elements.
std::vector<ValueId> inputs_that_bind(const Graph& graph, std::set<int32_t>& wanted);

}  // namespace tv

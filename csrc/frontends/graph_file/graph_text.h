#pragma once
// A graph as JSON. Expressions are whole numbers, or texts as Expr::str has them; an absent field
// has its default.
//
// clang-format off
//   {"name": "net",
//    "symbols": [{"name": "s0", "min": 1, "opt": 8, "max": 64}],       max absent: unbounded
//    "conditions": [{"relation": "multiple", "left": "6*s0", "right": 4, "source": "…"}],
//    "values": [{"name": "x", "dtype": "float32", "shape": ["s0", 3]}, …],   an id: the place here
//    "inputs": [0], "weights": [1],
//    "nodes": [{"op": "aten::mm", "name": "mm", "source": "net.py:4", "module": "head",
//               "args": [{"name": "self", "tensor": 0}, …], "outputs": [2]}],   in order
//    "outputs": [{"value": 2, "name": "mm", "strides": [3, 1]}]}
// clang-format on
//
// An argument has one of "tensor" (an id or null), "tensors", "bool", "int", "float", "text",
// "dtype", "ints", "floats" and "bools", or nothing for None; a float may be "inf", "-inf" or
// "nan".

#include <string_view>

#include "csrc/graph/graph.h"
#include "runtime/base/json.h"

namespace tv::graph_file {

/// What frontends make: no views, programs, scales and written inputs, which passes add. Conditions
/// on nodes become the graph's.
Json to_json(const Graph& graph);

/// A graph that `check` accepts, of text of any origin. Throws Error(kUser).
Graph from_json(const Json& json);

/// A fault of a graph file, as an Error(kUser).
[[noreturn]] void fail(const std::string& where, const std::string& what);

}  // namespace tv::graph_file

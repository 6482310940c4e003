#pragma once
// Replaces one node by several, during canonicalise.

#include "csrc/graph/graph.h"

namespace tv {

class Rewriter {
 public:
  Rewriter(Graph& graph, const Node& replaced, std::vector<Node>& out)
      : graph_(graph), replaced_(replaced), out_(out) {}

  /// Adds a node with one output; returns its value. Source and module path are the replaced
  /// node's.
  ValueId add(std::string op, std::vector<Arg> args, DType dtype, Shape shape);
  /// Adds a node with several outputs.
  std::vector<ValueId> add_multi(std::string op, std::vector<Arg> args,
                                 const std::vector<std::pair<DType, Shape>>& outputs);
  /// Says that output `index` of the replaced node is `value` from now on.
  void replace(size_t index, ValueId value);

  // Frequent ones. Shapes broadcast as torch does; `cast` is a no-op where the dtype is right.
  ValueId cast(ValueId value, DType dtype);
  ValueId reshape(ValueId value, Shape shape);
  ValueId permute(ValueId value, std::vector<int64_t> dims);
  /// pointwise(function, operands) by table row, e.g. pointwise("mul", {a, b}).
  ValueId pointwise(const std::string& function, std::vector<ValueId> operands, DType dtype,
                    std::vector<double> scalars = {});

  Graph& graph() { return graph_; }
  const std::vector<std::pair<size_t, ValueId>>& replacements() const { return replacements_; }

 private:
  Graph& graph_;
  const Node& replaced_;
  std::vector<Node>& out_;
  std::vector<std::pair<size_t, ValueId>> replacements_;
};

}  // namespace tv

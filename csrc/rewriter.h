#pragma once
// For converters with `expand`: replaces a node by several others, during the pass canonicalise.

#include "csrc/graph/graph.h"

namespace tv {

class Rewriter {
 public:
  Rewriter(Graph& graph, const Node& replaced, std::vector<Node>& out)
      : graph_(graph), replaced_(replaced), out_(out) {}

  /// Adds a node with one output and returns its value. Source and module path are those of the
  /// replaced node.
  ValueId add(std::string op, std::vector<Arg> args, DType dtype, Shape shape);
  /// Adds a node with several outputs and returns their values.
  std::vector<ValueId> add_multi(std::string op, std::vector<Arg> args,
                                 const std::vector<std::pair<DType, Shape>>& outputs);
  /// Makes `value` output `index` of the replaced node.
  void replace(size_t index, ValueId value);

  // Frequent ones. Shapes broadcast as in torch; `cast` does nothing if the dtype is right.
  ValueId cast(ValueId value, DType dtype);
  ValueId reshape(ValueId value, Shape shape);
  ValueId permute(ValueId value, std::vector<int64_t> dims);
  /// A row of the pointwise table applied to operands: pointwise("mul", {a, b}, dtype).
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

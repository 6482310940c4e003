#pragma once

#include <set>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// A graph being fused: the readers of each storage, up to date as nodes merge. A merged node takes
/// the place of its last part, so the order stays topological.
class FusionGraph {
 public:
  explicit FusionGraph(Graph graph);
  /// The graph without the nodes that were merged into others.
  Graph take();

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  int32_t size() const { return static_cast<int32_t>(graph_.nodes.size()); }
  bool alive(int32_t node) const { return alive_[static_cast<size_t>(node)]; }
  const Node& node(int32_t index) const { return graph_.nodes[static_cast<size_t>(index)]; }
  Node& node(int32_t index) { return graph_.nodes[static_cast<size_t>(index)]; }
  const Value& value(ValueId id) const { return graph_.value(id); }
  ValueId base_of(ValueId id) const;
  /// Nodes that read the storage of `base`, ascending.
  const std::set<int32_t>& readers(ValueId base) const {
    return readers_[static_cast<size_t>(base)];
  }
  /// The node that makes `base`, -1 for inputs and weights.
  int32_t producer(ValueId base) const { return producers_[static_cast<size_t>(base)]; }
  bool is_output(ValueId base) const { return outputs_.count(base) > 0; }
  /// How many operands of a node are `base` or views of it.
  int64_t reads(int32_t reader, ValueId base) const;
  /// Whether `reader` alone reads `base`, and as one operand: if that is replaced, `base` has no
  /// reader left.
  bool is_read_once(ValueId base, int32_t reader) const;
  bool is_constant(int32_t node) const { return constant_[static_cast<size_t>(node)]; }
  /// True where `id` covers all of its storage in row-major order.
  bool covers_storage(ValueId id) const;
  /// `id` itself where it has `shape`'s count of elements, else a view of it broadcast to `shape`.
  ValueId broadcast_to(ValueId id, const Shape& shape);

  /// Puts `merged` in the place of node `at` and drops node `gone`.
  void replace(int32_t at, Node merged, int32_t gone);
  /// Puts `merged` in the place of node `at`, and drops `copied`, a part of it, if that has no
  /// reader left.
  void replace_by_copy(int32_t at, Node merged, int32_t copied);
  /// A value of a node that has the shape and dtype of `id`, and no view.
  ValueId add_like(ValueId id, const char* suffix);
  /// A view of this dtype and shape.
  ValueId add_view(std::string name, DType dtype, Shape shape, View view);
  /// Makes `old`, and every view of it, a view of the storage of `by` in the same row-major order.
  void rebase(ValueId old, ValueId by);

 private:
  ValueId add_value(Value value);
  void put(int32_t at, Node merged);
  void drop(int32_t node);
  void note_reads(int32_t node, bool reads);
  Graph graph_;
  std::vector<bool> alive_, constant_;
  std::vector<int32_t> producers_;
  std::vector<std::set<int32_t>> readers_;
  std::set<ValueId> outputs_;
};

}  // namespace tv

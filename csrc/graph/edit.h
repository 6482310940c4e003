#pragma once
// What several passes do to a Graph.

#include <map>

#include "csrc/graph/graph.h"

namespace tv {

/// Values that stand for others from now on; chains are followed.
class Replacements {
 public:
  void add(ValueId old, ValueId by) { map_[old] = by; }
  bool empty() const { return map_.empty(); }
  ValueId resolve(ValueId value) const;
  void apply(Node& node) const;    ///< in all that the node reads
  void apply(Graph& graph) const;  ///< in all nodes and outputs

 private:
  std::map<ValueId, ValueId> map_;
};

/// A node for the work of `node`: of its source and module, named after it.
Node node_for(const Node& node, std::string op, const std::string& suffix);

/// Appends a node that has one output.
ValueId append(Graph& graph, Node node, DType dtype, Shape shape);

/// Whether a scalar argument is 1 or absent; false if it depends on a symbol.
bool is_one(const Node& node, const char* arg);

/// Gives each node whose name an earlier one has a suffix.
void make_names_unique(Graph& graph);

/// For each value: whether it depends on weights and constants only. A node without inputs (arange,
/// full) is constant where its outputs' shapes and attributes have no symbol.
std::vector<bool> constant_values(const Graph& graph);

}  // namespace tv

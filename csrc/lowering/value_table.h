#pragma once

#include <string>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// The values of a graph and the scratch values that tactics add, with what lowering knows of them.
/// Scratch values live apart from the graph, so references into the graph stay valid.
class ValueTable {
 public:
  explicit ValueTable(const Graph& graph);

  const Graph& graph() const { return graph_; }
  const Value& value(ValueId id) const;
  /// Layout in the storage of the base value.
  View layout(ValueId id) const;
  /// True if the value is computed from weights alone and has no symbol in its shape.
  bool is_constant(ValueId id) const { return constant_.at(static_cast<size_t>(layout(id).base)); }
  void set_constant(ValueId base, bool constant) {
    constant_.at(static_cast<size_t>(base)) = constant;
  }
  ValueId add_scratch(const std::string& name, DType dtype, Shape shape);
  bool is_scratch(ValueId id) const { return static_cast<size_t>(id) >= graph_.values.size(); }
  size_t size() const { return constant_.size(); }

 private:
  const Graph& graph_;
  std::vector<Value> scratch_;
  std::vector<bool> constant_;  // by base value
};

}  // namespace tv

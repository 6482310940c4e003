#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// Which nodes make the values of a graph, for passes that recognise an operator by its pieces. It
/// refers to the graph, whose nodes keep their places meanwhile. Views of choose_layouts are values
/// of their own.
class Makers {
 public:
  explicit Makers(const Graph& graph)
      : graph_(graph), made_by_(producers(graph)), read_by_(consumers(graph)) {}

  /// Null for an input, and for kNoValue.
  const Node* maker(ValueId v) const {
    const int32_t at = v == kNoValue ? -1 : made_by_[static_cast<size_t>(v)];
    return at < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(at)];
  }

  /// Where it is of this operator, else null.
  const Node* maker(ValueId v, std::string_view op) const {
    const Node* node = maker(v);
    return node && node->op == op ? node : nullptr;
  }

  /// The node of this operator that makes `v` for one node alone, and not for the caller.
  const Node* only(ValueId v, std::string_view op) const {
    const Node* node = maker(v, op);
    return node && only_reader(v) ? node : nullptr;
  }

  /// The only node that reads `v`; null if several do, or if `v` is an output of the graph.
  const Node* only_reader(ValueId v) const {
    const std::vector<int32_t>& all = readers(v);
    return all.size() == 1 && !is_result(v) ? &graph_.nodes[static_cast<size_t>(all[0])] : nullptr;
  }

  bool is_result(ValueId v) const {
    return std::ranges::any_of(graph_.outputs, [&](const GraphOutput& o) { return o.value == v; });
  }

  /// Indices of the nodes that read `v`.
  const std::vector<int32_t>& readers(ValueId v) const { return read_by_[static_cast<size_t>(v)]; }

 private:
  const Graph& graph_;
  const std::vector<int32_t> made_by_;
  const std::vector<std::vector<int32_t>> read_by_;
};

}  // namespace tv

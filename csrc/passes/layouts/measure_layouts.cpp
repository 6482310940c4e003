#include "csrc/passes/layouts/measure_layouts.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "csrc/converter.h"
#include "csrc/graph/strided.h"
#include "csrc/passes/layouts/choose_channels_last.h"

namespace tv {

namespace {

constexpr double kWorth = 0.95;  // of the rule's time

bool is_pointwise(const Node& node) { return node.op == "tv::pointwise"; }

class Decider {
 public:
  Decider(Graph graph, const NodesUs& us) : graph_(std::move(graph)), us_(us) { look(); }

  Graph run() {
    for (const std::vector<ValueId>& group : groups()) decide(group);
    return std::move(graph_);
  }

 private:
  static size_t at(ValueId id) { return static_cast<size_t>(id); }
  const Node* maker(ValueId id) const {
    return maker_[at(id)] < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(maker_[at(id)])];
  }

  void look() {
    const size_t values = graph_.values.size();
    readers_.assign(values, {});
    maker_.assign(values, -1);
    views_.assign(values, 0);
    returned_.assign(values, false);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const ValueId id : graph_.nodes[n].all_inputs()) readers_[at(id)].insert(n);
      for (const ValueId id : graph_.nodes[n].outputs) {
        if (id != kNoValue) maker_[at(id)] = static_cast<int64_t>(n);
      }
    }
    for (const Value& value : graph_.values) {
      if (value.view) ++views_[at(value.view->base)];
    }
    for (const GraphOutput& output : graph_.outputs) {
      returned_[at(layout_of(graph_, output.value).base)] = true;
    }
  }

  // --- which values -----------------------------------------------------------------------------

  bool is_moved(ValueId id) const {
    const Value& value = graph_.value(id);
    if (!value.view || value.shape.size() != 4 || !(value.view->offset == Expr(0))) return false;
    const ValueId base = value.view->base;
    return maker(id) && views_[at(base)] == 1 && !returned_[at(base)] &&
           graph_.value(base).shape == by_pixels(value.shape) && value.view->strides[1] == Expr(1);
  }

  /// Whether it may lie either way: its readers take any strides.
  bool may_move(ValueId id) const {
    const Value& value = graph_.value(id);
    const Node* made = maker(id);
    if (!made || made->outputs.size() != 1 || readers_[at(id)].empty()) return false;
    if (!is_plane_convolution(graph_, *made) && !is_pointwise(*made)) return false;
    if (value.view || views_[at(id)] > 0 || returned_[at(id)] || value.shape.size() != 4) {
      return false;
    }
    return has_whole_chunks(value.shape[1], value.dtype) &&
           std::ranges::all_of(readers_[at(id)],
                               [&](size_t n) { return reads_strides(graph_.nodes[n], id); });
  }

  static bool reads_strides(const Node& reader, ValueId id) {
    if (is_pointwise(reader)) return true;
    const Converter* converter = Registry::instance().find(reader.op);
    if (!converter) return false;
    return std::ranges::all_of(reader.args, [&](const Arg& arg) {
      if (!arg.is_tensor || std::ranges::find(arg.values, id) == arg.values.end()) return true;
      return std::ranges::any_of(converter->reads_views, [&](const std::string& name) {
        return name == "*" || name == arg.name;
      });
    });
  }

  /// Values that lie alike because elementwise operators lead from one to the other; of those that
  /// the rule left, only groups that a convolution touches.
  std::vector<std::vector<ValueId>> groups() const {
    std::vector<ValueId> parent(graph_.values.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](ValueId v) {
      while (parent[at(v)] != v) v = parent[at(v)];
      return v;
    };
    std::vector<bool> free(graph_.values.size(), false);
    for (ValueId v = 0; v < static_cast<ValueId>(free.size()); ++v) free[at(v)] = may_move(v);
    for (const Node& node : graph_.nodes) {
      if (!is_pointwise(node) || node.outputs.size() != 1 || !free[at(node.outputs[0])]) continue;
      const ValueId made = node.outputs[0];
      for (const ValueId read : node.all_inputs()) {
        if (free[at(read)] && graph_.value(read).shape == graph_.value(made).shape) {
          parent[at(root(std::max(read, made)))] = root(std::min(read, made));
        }
      }
    }
    std::vector<std::vector<ValueId>> found;
    std::vector<int64_t> group_of(free.size(), -1);
    for (const Node& node : graph_.nodes) {
      for (const ValueId v : node.outputs) {
        if (v == kNoValue || (!free[at(v)] && !is_moved(v))) continue;
        int64_t& group = group_of[at(root(v))];
        if (group < 0) {
          group = static_cast<int64_t>(found.size());
          found.emplace_back();
        }
        found[static_cast<size_t>(group)].push_back(v);
      }
    }
    return found;
  }

  /// Nodes that make or read one of them.
  std::vector<size_t> touched(const std::vector<ValueId>& group) const {
    std::set<size_t> nodes;
    for (const ValueId v : group) {
      nodes.insert(static_cast<size_t>(maker_[at(v)]));
      nodes.insert(readers_[at(v)].begin(), readers_[at(v)].end());
    }
    return {nodes.begin(), nodes.end()};
  }

  // --- what it takes ----------------------------------------------------------------------------

  void decide(const std::vector<ValueId>& group) {
    // What was decided before may have made views of them.
    const bool moved = is_moved(group[0]);
    if (!moved && !std::ranges::all_of(group, [&](ValueId v) { return may_move(v); })) return;
    const std::vector<size_t> nodes = touched(group);
    if (std::ranges::none_of(
            nodes, [&](size_t n) { return is_plane_convolution(graph_, graph_.nodes[n]); })) {
      return;
    }
    Graph other = graph_;
    if (moved) {
      other.value(group[0]).view.reset();
    } else {
      for (const ValueId v : group) store_channels_last(other, v);
      for (const size_t n : nodes) walk_by_pixels(other, other.nodes[n]);
    }
    const std::optional<double> before = us_(graph_, nodes), after = us_(other, nodes);
    if (!before || !after || *after >= kWorth * *before) return;
    graph_ = std::move(other);
    look();
  }

  Graph graph_;
  const NodesUs& us_;
  std::vector<std::set<size_t>> readers_;  // of each value, nodes
  std::vector<int64_t> maker_;
  std::vector<int> views_;  // of each storage
  std::vector<bool> returned_;
};

}  // namespace

Graph measure_layouts(Graph graph, const NodesUs& us) {
  return Decider(std::move(graph), us).run();
}

}  // namespace tv

#include "csrc/frontends/graph_file/graph_parts.h"

#include <algorithm>
#include <set>

#include "csrc/frontends/graph_file/graph_text.h"

namespace tv::graph_file {
namespace {

class Fixer {
 public:
  explicit Fixer(const Graph& graph) {
    for (const Symbol& symbol : graph.symbols) {
      if (symbol.min != symbol.max) fail("the graph", "has sizes that are not fixed");
      values_.emplace_back(symbol.min);
    }
  }

  void fix(Expr& e) const {
    if (!e.is_constant()) e = e.substitute(values_);
  }
  void fix(std::vector<Expr>& list) const {
    for (Expr& e : list) fix(e);
  }
  void fix(Attr& attr) const {
    if (auto* e = std::get_if<Expr>(&attr)) fix(*e);
    if (auto* list = std::get_if<std::vector<Expr>>(&attr)) fix(*list);
  }

 private:
  std::vector<Expr> values_;
};

/// Copies nodes of a graph without symbols, with the constants that they read.
class GraphCutter {
 public:
  GraphCutter(const Model& model, std::span<const size_t> nodes)
      : model_(model),
        graph_(model.graph),
        makers_(producers(model.graph)),
        inside_(model.graph.nodes.size(), false),
        new_id_(model.graph.values.size(), kNoValue) {
    for (const size_t n : nodes) inside_.at(n) = true;
  }

  Model run() {
    made_.graph.name = graph_.name;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (inside_[n]) copy(graph_.nodes[n]);
    }
    add_outputs();
    return std::move(made_);
  }

 private:
  ValueId read(ValueId v) {
    if (v == kNoValue || new_id_.at(v) != kNoValue) return v == kNoValue ? v : new_id_[v];
    if (makers_.at(v) >= 0) {
      const Node& maker = graph_.nodes[static_cast<size_t>(makers_[v])];
      if (maker.all_inputs().empty()) {
        copy(maker);
        return new_id_[v];
      }
    }
    Value value = graph_.value(v);
    const auto weight = std::ranges::find(graph_.weights, v);
    value.kind = weight == graph_.weights.end() ? ValueKind::kInput : ValueKind::kWeight;
    new_id_[v] = made_.graph.add_value(std::move(value));
    if (weight == graph_.weights.end()) {
      made_.graph.inputs.push_back(new_id_[v]);
    } else {
      made_.graph.weights.push_back(new_id_[v]);
      made_.weights.push_back(
          model_.weights.at(static_cast<size_t>(weight - graph_.weights.begin())));
    }
    return new_id_[v];
  }

  void copy(Node node) {
    for (Arg& arg : node.args) {
      for (ValueId& v : arg.values) v = read(v);
    }
    for (ValueId& v : node.outputs) {
      if (v == kNoValue) continue;
      new_id_[v] = made_.graph.add_value(graph_.value(v));
      v = new_id_[v];
    }
    node.origin.index = static_cast<int32_t>(made_.graph.nodes.size());
    made_.graph.nodes.push_back(std::move(node));
  }

  void add_outputs() {
    std::set<ValueId> wanted;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (inside_[n]) continue;
      for (const ValueId v : graph_.nodes[n].all_inputs()) wanted.insert(v);
    }
    for (const GraphOutput& output : graph_.outputs) wanted.insert(output.value);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!inside_[n]) continue;
      for (const ValueId v : graph_.nodes[n].outputs) {
        if (v == kNoValue || !wanted.contains(v)) continue;
        made_.graph.outputs.push_back({.value = new_id_[v], .name = graph_.value(v).name});
      }
    }
  }

  const Model& model_;
  const Graph& graph_;
  const std::vector<int32_t> makers_;
  std::vector<bool> inside_;
  std::vector<ValueId> new_id_;
  Model made_;
};

}  // namespace

void fix_sizes(Graph& graph) {
  const Fixer fixer(graph);
  for (Value& value : graph.values) fixer.fix(value.shape);
  for (Node& node : graph.nodes) {
    for (Arg& arg : node.args) fixer.fix(arg.attr);
  }
  for (GraphOutput& output : graph.outputs) fixer.fix(output.strides);
  graph.symbols.clear();
  graph.conditions.clear();  // narrow() found sizes that fulfil them
  check_nodes(graph);
}

std::vector<size_t> GraphParts::nodes() const {
  std::vector<size_t> found;
  for (size_t n = 0; n < model_.graph.nodes.size(); ++n) {
    if (!model_.graph.nodes[n].all_inputs().empty()) found.push_back(n);
  }
  return found;
}

Model GraphParts::cut(std::span<const size_t> nodes) const {
  return GraphCutter(model_, nodes).run();
}

}  // namespace tv::graph_file

#include "csrc/graph/edit.h"

#include <algorithm>
#include <unordered_set>

namespace tv {
namespace {

bool has_symbol(const Expr& e) { return !e.is_constant(); }

bool has_symbol(const Attr& attr) {
  if (const auto* e = std::get_if<Expr>(&attr)) return has_symbol(*e);
  if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) {
    return std::any_of(list->begin(), list->end(), [](const Expr& e) { return has_symbol(e); });
  }
  return false;
}

bool is_constant_node(const Graph& graph, const Node& node, const std::vector<bool>& constant) {
  for (const ValueId v : node.all_inputs()) {
    const Value& value = graph.value(v);
    if (!constant[value.view ? value.view->base : v]) return false;
  }
  for (const Arg& a : node.args) {
    if (has_symbol(a.attr)) return false;
  }
  for (const ValueId v : node.outputs) {
    if (v == kNoValue) continue;
    for (const Expr& dim : graph.value(v).shape) {
      if (has_symbol(dim)) return false;
    }
  }
  return true;
}

}  // namespace

ValueId Replacements::resolve(ValueId value) const {
  for (auto it = map_.find(value); it != map_.end(); it = map_.find(value)) value = it->second;
  return value;
}

void Replacements::apply(Node& node) const {
  if (map_.empty()) return;
  for (Arg& a : node.args) {
    for (ValueId& v : a.values) v = resolve(v);
  }
  for (ValueId& v : node.epilogue_inputs) v = resolve(v);
  for (ValueId& v : node.prologue_inputs) v = resolve(v);
}

void Replacements::apply(Graph& graph) const {
  if (map_.empty()) return;
  for (Node& node : graph.nodes) apply(node);
  for (GraphOutput& out : graph.outputs) out.value = resolve(out.value);
}

Node node_for(const Node& node, std::string op, const std::string& suffix) {
  Node made;
  made.op = std::move(op);
  made.name = node.name + suffix;
  made.source = node.source;
  made.module_path = node.module_path;
  return made;
}

ValueId append(Graph& graph, Node node, DType dtype, Shape shape) {
  const ValueId out = graph.add_output(node, dtype, std::move(shape));
  graph.nodes.push_back(std::move(node));
  return out;
}

bool is_one(const Node& node, const char* arg) {
  const Expr* e = node.has(arg) ? std::get_if<Expr>(&node.arg(arg).attr) : nullptr;
  return (e == nullptr || e->is_constant()) && (!node.has(arg) || node.number(arg) == 1);
}

void make_names_unique(Graph& graph) {
  std::unordered_set<std::string> used;
  for (Node& node : graph.nodes) {
    if (used.insert(node.name).second) continue;
    for (int suffix = 1;; ++suffix) {
      std::string name = node.name + "_" + std::to_string(suffix);
      if (!used.insert(name).second) continue;
      node.name = std::move(name);
      break;
    }
  }
}

std::vector<bool> constant_values(const Graph& graph) {
  std::vector<bool> constant(graph.values.size(), false);
  for (const ValueId v : graph.weights) constant[v] = true;
  for (const Node& node : graph.nodes) {
    if (!is_constant_node(graph, node, constant)) continue;
    for (const ValueId v : node.outputs) {
      if (v != kNoValue) constant[v] = true;
    }
  }
  return constant;
}

}  // namespace tv

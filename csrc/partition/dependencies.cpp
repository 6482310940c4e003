#include "csrc/partition/dependencies.h"

#include <array>
#include <numeric>

#include "csrc/converter.h"

namespace tv {
namespace {

constexpr std::string_view kRefused = "native::";

/// "add" of "aten::add.Tensor".
std::string_view base_name(std::string_view op) {
  const size_t colon = op.rfind(':');
  if (colon != std::string_view::npos) op.remove_prefix(colon + 1);
  return op.substr(0, op.find('.'));
}

bool mutates(const Node& node) {
  const std::string_view base = base_name(node.op);
  return base.ends_with('_') && !base.ends_with("__");
}

bool has_effect(const Node& node) {
  // What an importer could not express: it orders effects itself, with values.
  if (node.op.starts_with(kRefused)) return false;
  if (!node.op.starts_with("aten::") && !node.op.starts_with("prims::") &&
      !node.op.starts_with("tv::")) {
    return Registry::instance().find(node.op) == nullptr;
  }
  const std::string_view base = base_name(node.op);
  constexpr std::array kRandom = {"rand",        "bernoulli", "multinomial", "normal",    "uniform",
                                  "exponential", "poisson",   "dropout",     "rrelu",     "cauchy",
                                  "geometric",   "assert",    "binomial",    "_dirichlet"};
  for (const char* word : kRandom) {
    if (base.find(word) != std::string_view::npos) return true;
  }
  return mutates(node);
}

/// Groups of values that may share memory. An operator without a converter may return any view.
class AliasSets {
 public:
  explicit AliasSets(const Graph& graph) : parent_(graph.values.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Node& node : graph.nodes) {
      const std::vector<ValueId> read = node.all_inputs();
      const bool unknown = Registry::instance().find(node.op) == nullptr;
      if (read.empty() || !(unknown || is_view(node))) continue;
      for (const ValueId v : node.outputs) {
        if (v == kNoValue) continue;
        join(v, read.front());
        for (size_t i = 1; unknown && i < read.size(); ++i) join(v, read[i]);
      }
    }
  }

  ValueId find(ValueId v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }

 private:
  void join(ValueId a, ValueId b) { parent_[find(a)] = find(b); }
  std::vector<ValueId> parent_;
};

void add_mutation_edges(const Graph& graph, Dag& dag) {
  AliasSets sets(graph);
  for (size_t m = 0; m < graph.nodes.size(); ++m) {
    if (!mutates(graph.nodes[m])) continue;
    std::vector<bool> touched(graph.values.size(), false);
    for (const ValueId v : graph.nodes[m].all_inputs()) touched[sets.find(v)] = true;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (n == m) continue;
      for (const ValueId v : graph.nodes[n].all_inputs()) {
        if (touched[sets.find(v)]) {
          dag.add_edge(static_cast<int32_t>(std::min(n, m)), static_cast<int32_t>(std::max(n, m)));
        }
      }
    }
  }
}

}  // namespace

bool is_view(const Node& node) {
  const Converter* converter = Registry::instance().find(node.op);
  return converter && (converter->view || !converter->is_compute);
}

bool does_work(const Node& node) {
  std::string_view op = node.op;
  if (op.starts_with(kRefused)) op.remove_prefix(kRefused.size());  // a view is free there too
  const Converter* converter = Registry::instance().find(op);
  return !converter || converter->is_compute;
}

bool runs_on_host(const Node& node) {
  return node.op.starts_with(kRefused) && node.has("host") && node.flag("host");
}

Dag execution_order(const Graph& graph) {
  Dag dag(graph.nodes.size());
  const std::vector<int32_t> made_by = producers(graph);
  int32_t last_effect = -1;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    for (const ValueId v : graph.nodes[n].all_inputs()) {
      if (made_by[v] >= 0) dag.add_edge(made_by[v], n);
    }
    if (!has_effect(graph.nodes[n])) continue;
    if (last_effect >= 0) dag.add_edge(last_effect, n);
    last_effect = n;
  }
  add_mutation_edges(graph, dag);
  return dag;
}

}  // namespace tv

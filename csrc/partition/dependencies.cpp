#include "csrc/partition/dependencies.h"

#include <array>
#include <numeric>

#include "csrc/converter.h"

namespace tv {
namespace {

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

bool is_free(std::string_view op) {
  const Converter* converter = Registry::instance().find(op);
  return converter && !converter->is_compute;
}

bool is_refused(const Node& node) { return !node.origin.refusal.empty(); }

bool has_effect(const Node& node) {
  if (node.origin.effect) return true;
  if (is_refused(node)) return false;  // its frontend reports its effects
  if (!node.op.starts_with("aten::") && !node.op.starts_with("prims::") &&
      !node.op.starts_with("tv::")) {
    return Registry::instance().find(node.op) == nullptr;
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
      const bool unknown = is_refused(node) || Registry::instance().find(node.op) == nullptr;
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
  return converter && !is_refused(node) && (converter->view || !converter->is_compute);
}

bool does_work(const Node& node) { return !is_free(node.op); }

bool does_work_in_model(const Node& node) {
  constexpr std::string_view kAten = "aten::";
  const std::string& op = node.origin.op.empty() ? node.op : node.origin.op;
  if (node.origin.free || is_free(op)) return false;
  // Of complex values, for which importers have other names (converters/complex/complex.h).
  return !op.starts_with(kAten) || !is_free("complex::" + op.substr(kAten.size()));
}

std::vector<std::vector<int32_t>> waiting_nodes(const Graph& graph) {
  std::vector<std::vector<int32_t>> out = consumers(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId v : graph.nodes[n].origin.after)
      out.at(v).push_back(static_cast<int32_t>(n));
  }
  return out;
}

Dag execution_order(const Graph& graph) {
  Dag dag(graph.nodes.size());
  const std::vector<int32_t> made_by = producers(graph);
  // What a frontend says has an effect, and what may have one for all that is known of it.
  std::array<int32_t, 2> last_effect = {-1, -1};
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    for (const ValueId v : graph.nodes[n].waits_for()) {
      if (made_by[v] >= 0) dag.add_edge(made_by[v], n);
    }
    if (!has_effect(graph.nodes[n])) continue;
    int32_t& last = last_effect[graph.nodes[n].origin.effect ? 0 : 1];
    if (last >= 0) dag.add_edge(last, n);
    last = n;
  }
  add_mutation_edges(graph, dag);
  return dag;
}

}  // namespace tv

#include "csrc/partition/symbols.h"

namespace tv {
namespace {

void collect(const Expr& e, std::set<int32_t>& out) {
  for (const int32_t id : e.symbols()) out.insert(id);
}

void collect(const Value& value, std::set<int32_t>& out) {
  for (const Expr& dim : value.shape) collect(dim, out);
  if (!value.view) return;
  collect(value.view->offset, out);
  for (const Expr& stride : value.view->strides) collect(stride, out);
}

void collect(const Attr& attr, std::set<int32_t>& out) {
  if (const auto* e = std::get_if<Expr>(&attr)) collect(*e, out);
  if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) {
    for (const Expr& e : *list) collect(e, out);
  }
}

/// The symbol that equating `dim` with its value determines, or -1.
int32_t determined_symbol(const Expr& dim) {
  const std::vector<int32_t> ids = dim.symbols();
  if (ids.size() != 1) return -1;
  const std::vector<int64_t> probe(ids.front() + 1, 7);  // any value that the symbol may have
  const auto solved = dim.solve(dim.eval(probe));
  return solved ? solved->first : -1;
}

}  // namespace

std::set<int32_t> used_symbols(const Graph& graph, const std::vector<int32_t>& nodes) {
  std::set<int32_t> out;
  for (const int32_t n : nodes) {
    const Node& node = graph.nodes[n];
    for (const Arg& a : node.args) collect(a.attr, out);
    for (const ValueId v : node.all_inputs()) collect(graph.value(v), out);
    for (const ValueId v : node.outputs) {
      if (v != kNoValue) collect(graph.value(v), out);
    }
  }
  return out;
}

void drop_bound(std::set<int32_t>& wanted, const Value& value) {
  for (const Expr& dim : value.shape) wanted.erase(determined_symbol(dim));
}

std::vector<ValueId> inputs_that_bind(const Graph& graph, std::set<int32_t>& wanted) {
  std::vector<ValueId> out;
  for (const ValueId v : graph.inputs) {
    const size_t before = wanted.size();
    if (graph.value(v).dtype != DType::kOther) drop_bound(wanted, graph.value(v));
    if (wanted.size() != before) out.push_back(v);
  }
  return out;
}

}  // namespace tv

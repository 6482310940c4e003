#include "csrc/frontends/graph_file/input_ranges.h"

#include <algorithm>

#include "csrc/frontends/graph_file/fields.h"
#include "csrc/frontends/graph_file/graph_text.h"

namespace tv::graph_file {
namespace {

std::string range_text(int64_t min, int64_t max) {
  if (min == max) return std::to_string(min);
  return max == kUnbounded ? std::to_string(min) + " or more"
                           : std::to_string(min) + " to " + std::to_string(max);
}

/// A dimension that is one symbol times a number, plus another; others follow from these.
void narrow_symbol(Symbol& symbol, const Expr& dim, const DimRange& given,
                   const std::string& where) {
  const auto solved = [&](int64_t size) {
    const auto found = dim.solve(size);
    if (!found) fail(where, "the graph has no size of " + std::to_string(size) + " there");
    return found->second;
  };
  const int64_t min = solved(given.min), opt = solved(given.opt);
  const int64_t max = given.max == kUnbounded ? symbol.max : solved(given.max);
  if (min < symbol.min || max > symbol.max) {
    fail(where, "got " + range_text(given.min, given.max) + ", and the graph was exported for " +
                    symbol.name + " of " + range_text(symbol.min, symbol.max));
  }
  symbol = {.name = symbol.name, .min = min, .opt = std::clamp(opt, min, max), .max = max};
}

void narrow_input(Graph& graph, const Value& input, const std::vector<DimRange>& given) {
  const std::string what = "input " + quoted(input.name);
  if (given.size() != input.shape.size()) {
    fail(what, "got " + std::to_string(given.size()) + " sizes, want " +
                   std::to_string(input.shape.size()));
  }
  for (size_t d = 0; d < given.size(); ++d) {
    const Expr& dim = input.shape[d];
    const std::string where = what + " dimension " + std::to_string(d);
    if (const auto size = dim.constant()) {
      if (given[d].min != *size || given[d].max != *size) {
        fail(where, "got " + range_text(given[d].min, given[d].max) + ", and the graph has " +
                        std::to_string(*size));
      }
    } else if (const auto symbol = dim.symbols(); symbol.size() == 1 && dim.solve(given[d].min)) {
      narrow_symbol(graph.symbols[static_cast<size_t>(symbol[0])], dim, given[d], where);
    }
  }
}

/// Tactics are timed at the usual sizes, which must be some that the graph takes.
void settle_usual_sizes(Graph& graph) {
  std::vector<int64_t> usual;
  for (const Symbol& s : graph.symbols) usual.push_back(s.opt);
  const Condition* broken = first_broken(graph.conditions, usual);
  if (!broken) return;
  const auto found = fulfilling(graph.conditions, graph.symbols, usual);
  if (!found)
    fail("the graph", "does not run at its sizes: " + broken->refusal(graph.symbols, usual));
  for (size_t s = 0; s < found->size(); ++s) graph.symbols[s].opt = (*found)[s];
}

}  // namespace

void narrow(Graph& graph, const std::map<std::string, std::vector<DimRange>>& inputs) {
  for (const auto& [name, given] : inputs) {
    const auto found = std::ranges::find_if(
        graph.inputs, [&, &wanted = name](ValueId v) { return graph.value(v).name == wanted; });
    if (found == graph.inputs.end()) fail("the graph", "has no input " + quoted(name));
    narrow_input(graph, graph.value(*found), given);
  }
  settle_usual_sizes(graph);
}

}  // namespace tv::graph_file

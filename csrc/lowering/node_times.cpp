#include "csrc/lowering/node_times.h"

#include <algorithm>

#include "csrc/graph/edit.h"
#include "csrc/lowering/tactic_problem.h"

namespace tv {
namespace {

bool is_over(const GraphOutput& output) { return output.over != kNoValue; }

}  // namespace

std::optional<double> NodeTimes::us(const Graph& graph, std::span<const size_t> nodes) {
  if (std::ranges::any_of(graph.outputs, is_over)) {
    Graph apart = graph;  // where values come to lie in inputs is decided later
    std::erase_if(apart.outputs, is_over);
    return us(apart, nodes);
  }
  const std::vector<bool> constant = constant_values(graph);
  ValueTable table(graph);
  for (size_t v = 0; v < constant.size(); ++v) {
    if (constant[v]) table.set_constant(table.layout(static_cast<ValueId>(v)).base, true);
  }
  EngineSpec spec;
  spec.symbols = graph.symbols;
  BufferTable buffers(table, spec);
  const ProgramWriter::Parts parts{settings_, device_, table, buffers, spec};
  double sum = 0;
  for (const size_t n : nodes) {
    const Node& node = graph.nodes.at(n);
    if (constant[static_cast<size_t>(node.outputs.at(0))]) continue;
    const auto [it, fresh] = known_.try_emplace(problem_text(node, table));
    if (fresh) it->second = us_of(node, parts);
    if (!it->second) return std::nullopt;
    sum += *it->second;
  }
  return sum;
}

std::optional<double> NodeTimes::us_of(const Node& node, const ProgramWriter::Parts& parts) {
  const NodeTactics tactics = convert_node(node, parts.table, device_, settings_);
  if (tactics.named) return std::nullopt;  // the user has decided
  TacticProblem problem = tactic_problem(node, tactics, parts);
  problem.for_comparison = true;
  const TacticChoice choice = costs_.choose(problem, tactics.chosen, progress_);
  const double us =
      choice.candidate < choice.candidate_us.size() ? choice.candidate_us[choice.candidate] : 0;
  return us > 0 ? std::optional(us) : std::nullopt;
}

}  // namespace tv

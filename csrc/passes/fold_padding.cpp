#include "csrc/passes/fold_padding.h"

#include <algorithm>
#include <optional>

#include "csrc/graph/edit.h"

namespace tv {

namespace {

/// Elements added before and after each dimension, outermost first; nullopt if not constant.
struct Pad {
  std::vector<int64_t> before, after;
};

std::optional<Pad> pad_of(const Graph& graph, const Node& node) {
  const auto rank = static_cast<size_t>(graph.rank(node.input("self")));
  Pad pad{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  const std::vector<Expr> amounts = node.exprs("pad");  // from the last dimension: before, after
  for (size_t i = 0; i < amounts.size(); ++i) {
    const auto amount = amounts[i].constant();
    if (!amount || i / 2 >= rank) return std::nullopt;
    (i % 2 ? pad.after : pad.before)[rank - 1 - i / 2] = *amount;
  }
  return pad;
}

bool is_nothing(const Pad& pad) {
  const auto zero = [](int64_t v) { return v == 0; };
  return std::all_of(pad.before.begin(), pad.before.end(), zero) &&
         std::all_of(pad.after.begin(), pad.after.end(), zero);
}

/// Adds the pad in front of a convolution's input to its own; false if it cannot.
bool absorb(const Graph& graph, const Node& node, const Pad& pad, Node& convolution) {
  const Attr& value = node.arg("value").attr;
  const Expr* symbolic = std::get_if<Expr>(&value);
  const bool zeros =
      std::holds_alternative<std::monostate>(value) ||
      ((symbolic == nullptr || symbolic->is_constant()) && node.number("value") == 0);
  const size_t rank = pad.before.size();
  if (!zeros || rank < 3 || pad.before[0] || pad.after[0] || pad.before[1] || pad.after[1])
    return false;
  if (convolution.op != "aten::convolution" || convolution.flag("transposed")) return false;
  const Shape& window = graph.value(convolution.input("weight")).shape;
  std::vector<Expr> padding = convolution.exprs("padding");
  padding.resize(rank - 2, padding.at(0));
  for (size_t k = 2; k < rank; ++k) {
    if (pad.before[k] < 0 || pad.after[k] < 0) return false;
    // A window of one element reads its input as it lies.
    if (pad.before[k] + pad.after[k] > 0 && window[k] == Expr(1)) return false;
    padding[k - 2] += Expr(pad.before[k]);
  }
  for (Arg& arg : convolution.args) {
    if (arg.name == "padding") arg.attr = std::move(padding);
    if (arg.name == "input") arg.values = {node.input("self")};
  }
  return true;
}

}  // namespace

Graph fold_padding(Graph graph) {
  Replacements replaced;
  const std::vector<int32_t> made_by = producers(graph);
  for (Node& node : graph.nodes) {
    replaced.apply(node);
    if (node.op == "aten::constant_pad_nd") {
      const auto pad = pad_of(graph, node);
      if (pad && is_nothing(*pad)) replaced.add(node.outputs.at(0), node.input("self"));
    } else if (node.op == "aten::convolution") {
      const int32_t maker = made_by[static_cast<size_t>(node.input("input"))];
      if (maker < 0) continue;
      const Node& before = graph.nodes[static_cast<size_t>(maker)];
      if (before.op != "aten::constant_pad_nd") continue;
      const auto pad = pad_of(graph, before);
      if (!pad || !absorb(graph, before, *pad, node)) continue;
      if (node.fused_ops.empty()) node.fused_ops = {node.op};
      node.fused_ops.insert(node.fused_ops.begin(), before.op);
    }
  }
  replaced.apply(graph);
  return graph;
}

}  // namespace tv

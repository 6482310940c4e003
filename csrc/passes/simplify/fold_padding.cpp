#include "csrc/passes/simplify/fold_padding.h"

#include <algorithm>
#include <optional>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/one_number.h"

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

bool is_padding(const Node& node) { return moves(node, {Moves::kPads}); }

bool may_pad(const Node& node) {
  const bool any = node.op == "aten::convolution" || node.op == "tv::convolution_integer";
  return any && !(node.has("transposed") && node.flag("transposed"));
}

/// Whether what is padded by adds nothing to a convolution's sums.
bool is_zero(const Graph& graph, const Makers& makers, const Node& node, const Node& convolution) {
  const std::optional<double> number = padding_of(node);
  if (convolution.op == "aten::convolution") return number == 0;
  const ValueId zero = convolution.input("input_zero");
  if (number) return number_of(graph, makers, zero) == number;
  return node.arg("value").is_tensor && same_number(graph, makers, node.input("value"), zero);
}

/// Adds the pad in front of a convolution's input to its own; false if it cannot.
bool absorb(const Graph& graph, const Makers& makers, const Node& node, const Pad& pad,
            Node& convolution) {
  const size_t rank = pad.before.size();
  if (rank < 3 || pad.before[0] || pad.after[0] || pad.before[1] || pad.after[1]) return false;
  if (!is_zero(graph, makers, node, convolution)) return false;
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
  const Makers makers(graph);
  for (Node& node : graph.nodes) {
    replaced.apply(node);
    if (is_padding(node)) {
      const auto pad = pad_of(graph, node);
      if (pad && is_nothing(*pad)) replaced.add(node.outputs.at(0), node.input("self"));
    } else if (may_pad(node)) {
      const Node* before = makers.maker(node.input("input"));
      if (!before || !is_padding(*before)) continue;
      const auto pad = pad_of(graph, *before);
      if (!pad || !absorb(graph, makers, *before, *pad, node)) continue;
      if (node.fused_ops.empty()) node.fused_ops = {node.op};
      node.fused_ops.insert(node.fused_ops.begin(), before->op);
    }
  }
  replaced.apply(graph);
  return graph;
}

}  // namespace tv

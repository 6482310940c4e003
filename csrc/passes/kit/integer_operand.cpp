#include "csrc/passes/kit/integer_operand.h"

#include <algorithm>

#include "csrc/passes/kit/moves.h"

namespace tv {
namespace {

bool reshapes(const Node& node) { return moves(node, {Moves::kReshapes}); }
bool spreads(const Node& node) { return moves(node, {Moves::kSpreads}); }

bool is_plain_view(const Node& node) {
  return keeps_values(node) || moves(node, {Moves::kReshapes, Moves::kSpreads, Moves::kPermutes});
}

Shape ones(size_t rank) { return Shape(rank, Expr(1)); }

/// Blocks of a tensor of `from` after a view as `to`: all of one scale, or each row's own.
std::optional<Shape> reshaped(const Shape& blocks, const Shape& from, const Shape& to) {
  if (product(blocks) == Expr(1)) return ones(to.size());
  if (from.empty() || to.empty() || !(from.back() == to.back())) return std::nullopt;
  Shape rows = from, out = to;
  rows.back() = out.back() = Expr(1);
  return blocks == rows ? std::optional(out) : std::nullopt;
}

std::optional<Shape> blocks_after(const Graph& graph, const Node& node, const Shape& blocks) {
  const Shape &from = graph.value(node.all_inputs().at(0)).shape,
              &to = graph.value(node.outputs[0]).shape;
  if (keeps_values(node)) return blocks;
  if (reshapes(node)) return reshaped(blocks, from, to);
  if (spreads(node)) {
    return product(blocks) == Expr(1) ? std::optional(ones(to.size())) : std::nullopt;
  }
  Shape out;
  const std::vector<int64_t> order = permutation(graph, node).value();
  for (const int64_t dim : order) {
    out.push_back(blocks.at(static_cast<size_t>(dim)));
  }
  return out;
}

/// Whether a zero point is an integer that elements can be, as sums of 32 bits want it. What a
/// tensor of wider integers holds is known when it runs; libraries choose it so.
bool zero_fits(const Graph& graph, const Makers& makers, const Quantised& q) {
  if (q.zero_point == kNoValue) return true;
  if (!is_integer(graph.value(q.zero_point).dtype)) return false;
  const Node* made = makers.maker(q.zero_point);
  if (!made || made->op != "aten::full") return true;
  const Attr& fill = made->arg("fill_value").attr;
  if (const Expr* whole = std::get_if<Expr>(&fill); whole && !whole->is_constant()) return false;
  const double number = made->number("fill_value");
  return graph.value(q.input).dtype == DType::kU8 ? number >= 0 && number <= 255
                                                  : number >= -128 && number <= 127;
}

/// Blocks of the dequantised tensor itself; empty where scale and zero point differ in them.
std::optional<Shape> blocks_of(const Graph& graph, const Node& dequantize) {
  const Quantised q = quantised_of(dequantize);
  Shape blocks = ones(graph.value(dequantize.outputs[0]).shape.size());
  for (const ValueId part : {q.scale, q.zero_point}) {
    if (part == kNoValue) continue;
    const Shape& shape = graph.value(part).shape;
    for (size_t d = 0; d < blocks.size(); ++d) {
      if (shape[d] == Expr(1)) continue;
      if (!(blocks[d] == Expr(1)) && !(blocks[d] == shape[d])) return std::nullopt;
      blocks[d] = shape[d];
    }
  }
  return blocks;
}

}  // namespace

std::optional<IntegerOperand> integer_operand(const Graph& graph, const Makers& makers,
                                              ValueId value) {
  IntegerOperand operand;
  const auto is_floats = [&](ValueId v) { return is_float(graph.value(v).dtype); };
  for (const Node* node = makers.maker(value); node && is_floats(value);
       node = makers.maker(value)) {
    if (node->op == "tv::dequantize") {
      const Quantised q = quantised_of(*node);
      const bool bytes = q.bits == 8 && size_bytes(graph.value(q.input).dtype) == 1;
      if (!q.has_integers() || !bytes || !zero_fits(graph, makers, q)) return std::nullopt;
      operand.dequantize = node;
      std::reverse(operand.views.begin(), operand.views.end());
      return operand;
    }
    if (!is_plain_view(*node)) return std::nullopt;
    operand.views.push_back(node);
    value = node->all_inputs().at(0);
  }
  return std::nullopt;
}

std::optional<Shape> viewed_blocks(const Graph& graph, const IntegerOperand& operand) {
  std::optional<Shape> blocks = blocks_of(graph, *operand.dequantize);
  for (const Node* view : operand.views) {
    if (blocks) blocks = blocks_after(graph, *view, *blocks);
  }
  return blocks;
}

std::optional<Quantised> viewed(Rewriter& rw, const IntegerOperand& operand) {
  const Graph& graph = rw.graph();
  const std::optional<Shape> all = viewed_blocks(graph, operand);
  if (!all) return std::nullopt;
  Quantised q = quantised_of(*operand.dequantize);
  for (const Node* view : operand.views) {
    const Shape shape = graph.value(view->outputs[0]).shape;
    if (keeps_values(*view)) continue;
    if (const auto order = permutation(graph, *view)) {
      for (ValueId* part : {&q.input, &q.scale, &q.zero_point}) {
        if (*part != kNoValue) *part = rw.permute(*part, *order);
      }
      continue;
    }
    for (ValueId* part : {&q.scale, &q.zero_point}) {
      if (*part == kNoValue) continue;
      const bool one = product(graph.value(*part).shape) == Expr(1);
      Shape rows = shape;
      rows.back() = 1;
      *part = rw.reshape(*part, one ? ones(shape.size()) : rows);
    }
    if (reshapes(*view)) {
      q.input = rw.reshape(q.input, shape);
      continue;
    }
    std::vector<Arg> args = view->args;
    for (Arg& arg : args) {
      if (arg.name == "self") arg.values = {q.input};
    }
    q.input = rw.add(view->op, std::move(args), graph.value(q.input).dtype, shape);
  }
  return q;
}

}  // namespace tv

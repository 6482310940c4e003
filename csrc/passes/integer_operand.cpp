#include "csrc/passes/integer_operand.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tv {
namespace {

bool reshapes(const Node& node) {
  static const std::set<std::string, std::less<>> ops = {
      "aten::view",    "aten::_unsafe_view", "aten::reshape",      "aten::unsqueeze",
      "aten::squeeze", "aten::squeeze.dim",  "aten::squeeze.dims", "aten::flatten.using_ints"};
  return ops.contains(node.op);
}

/// The order of dimensions that a node makes; empty: it does not.
std::vector<int64_t> order_of(const Graph& graph, const Node& node) {
  const int64_t rank = graph.rank(node.outputs[0]);
  const auto wrapped = [&](int64_t dim) { return dim < 0 ? dim + rank : dim; };
  if (node.op == "aten::permute") {
    std::vector<int64_t> dims = node.integers("dims");
    for (int64_t& dim : dims) dim = wrapped(dim);
    return dims;
  }
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  if (node.op == "aten::t" && rank == 2) {
    std::swap(dims[0], dims[1]);
  } else if (node.op == "aten::transpose.int") {
    std::swap(dims.at(static_cast<size_t>(wrapped(node.integer("dim0")))),
              dims.at(static_cast<size_t>(wrapped(node.integer("dim1")))));
  } else {
    return {};
  }
  return dims;
}

bool is_view(const Graph& graph, const Node& node) {
  return keeps_values(node) || reshapes(node) || node.op == "aten::expand" ||
         !order_of(graph, node).empty();
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
  const Shape &from = graph.value(node.input("self")).shape,
              &to = graph.value(node.outputs[0]).shape;
  if (keeps_values(node)) return blocks;
  if (reshapes(node)) return reshaped(blocks, from, to);
  if (node.op == "aten::expand") {
    return product(blocks) == Expr(1) ? std::optional(ones(to.size())) : std::nullopt;
  }
  Shape out;
  for (const int64_t dim : order_of(graph, node))
    out.push_back(blocks.at(static_cast<size_t>(dim)));
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

bool keeps_values(const Node& node) {
  static const std::set<std::string, std::less<>> ops = {
      "aten::clone",  "aten::contiguous",      "aten::alias",
      "aten::detach", "aten::lift_fresh_copy", "aten::_to_copy"};
  return ops.contains(node.op);
}

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
    if (!is_view(graph, *node)) return std::nullopt;
    operand.views.push_back(node);
    value = node->input("self");
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
    const std::vector<int64_t> order = order_of(graph, *view);
    if (keeps_values(*view)) continue;
    if (!order.empty()) {
      for (ValueId* part : {&q.input, &q.scale, &q.zero_point}) {
        if (*part != kNoValue) *part = rw.permute(*part, order);
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

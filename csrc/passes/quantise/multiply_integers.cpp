#include "csrc/passes/quantise/multiply_integers.h"

#include <algorithm>
#include <optional>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/integer_operand.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

// Why it is not multiplied as integers.
constexpr const char* kLongSums = "32 bits need not hold its sums";
constexpr const char* kNoBatch = "its input has no batch dimension";
constexpr const char* kImageScales = "the image has several scales";
constexpr const char* kWeightScales = "the weight's scales are not those of the channels it makes";

/// Whether a tensor has one scale, or one for each of its parts along a dimension.
bool has_scales_of(size_t dim, const Shape& shape, const Shape& blocks) {
  Shape wanted(shape.size(), Expr(1));
  if (!(blocks[dim] == Expr(1))) wanted[dim] = shape[dim];
  return blocks == wanted;
}

class IntegerMultiplier {
 public:
  explicit IntegerMultiplier(Graph graph)
      : graph_(std::move(graph)), constant_(constant_values(graph_)), makers_(graph_) {}

  Graph run(IntegerReads& reads) {
    const std::vector<Node> nodes = graph_.nodes;
    for (const Node& node : nodes) {
      pair_ = {};
      why_.clear();
      const bool done = is_transposed(node)    ? convolve_transposed(node)
                        : is_convolution(node) ? convolve(node)
                                               : multiply(node);
      if (!done) out_.push_back(node);
      for (const std::string& tensor : pair_) {
        if (done) {
          reads.add(tensor, node);
        } else {
          reads.refused.try_emplace(tensor, why_);
        }
      }
    }
    graph_.nodes = std::move(out_);
    replaced_.apply(graph_);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  bool is_constant(ValueId value) const { return constant_[static_cast<size_t>(value)]; }
  Shape shape(ValueId value) const { return graph_.value(value).shape; }
  bool sums_fit(const Expr& terms) const { return tv::sums_fit(graph_, terms); }

  /// Both operands, of which one at least is known at run time alone.
  struct Pair {
    IntegerOperand a, b;
    Shape a_blocks, b_blocks;
  };

  std::optional<Pair> pair_of(ValueId a, ValueId b) {
    if (a == kNoValue || b == kNoValue || (is_constant(a) && is_constant(b))) return std::nullopt;
    const auto left = integer_operand(graph_, makers_, a);
    const auto right = integer_operand(graph_, makers_, b);
    for (const auto& operand : {left, right}) {
      if (operand) pair_.push_back(graph_.value(operand->dequantize->input("input")).name);
    }
    if (!left || !right) {
      refuse("what it is multiplied with is no tensor of 8-bit integers");
      return std::nullopt;
    }
    const auto a_blocks = viewed_blocks(graph_, *left), b_blocks = viewed_blocks(graph_, *right);
    if (!a_blocks || !b_blocks) {
      refuse("a view splits or joins what has one scale");
      return std::nullopt;
    }
    return Pair{*left, *right, *a_blocks, *b_blocks};
  }

  /// Says why a product of quantised tensors is computed of floats.
  bool refuse(const char* why) {
    why_ = why;
    return false;
  }

  bool multiply(const Node& node) {
    const auto product = product_of(node);
    if (!product) return false;
    const auto pair = pair_of(product->a, product->b);
    if (!pair) return false;
    if (const char* why = why_not_of_integers(graph_, *product, pair->a_blocks, pair->b_blocks)) {
      return refuse(why);
    }
    const Shape a = shape(product->a), b = shape(product->b);
    const bool batched = b.size() > 2;

    Rewriter rw(graph_, node, out_);
    Quantised left = *viewed(rw, pair->a), right = *viewed(rw, pair->b);
    if (product->b_by_steps) transpose(rw, right);
    flatten(rw, left, a, batched);
    Shape b_rows = b;
    if (product->b_by_steps) std::swap(b_rows[b.size() - 1], b_rows[b.size() - 2]);
    flatten(rw, right, b_rows, batched);
    const ValueId sums = product_of_integers(rw, left, right, batched);
    finish(rw, node, *pair, sums, {left.scale, across(rw, right.scale)}, product->bias);
    return true;
  }

  void transpose(Rewriter& rw, Quantised& q) const {
    for (ValueId* part : {&q.input, &q.scale, &q.zero_point}) {
      if (*part == kNoValue) continue;
      std::vector<int64_t> dims(shape(*part).size());
      for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int64_t>(d);
      std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
      *part = rw.permute(*part, dims);
    }
  }

  /// Rows of a matrix, or of one batch of matrices; scales and zero points [rows or 1, 1].
  void flatten(Rewriter& rw, Quantised& q, const Shape& whole, bool batched) const {
    const size_t last = whole.size() - 1;
    const Expr steps = whole[last];
    if (batched) {
      const Expr batch = tv::product(std::span(whole).first(last - 1));
      q.input = rw.reshape(q.input, {batch, whole[last - 1], steps});
    } else {
      q.input = rw.reshape(q.input, {tv::product(std::span(whole).first(last)), steps});
    }
    for (ValueId* part : {&q.scale, &q.zero_point}) {
      if (*part != kNoValue) *part = rw.reshape(*part, {tv::product(shape(*part)), Expr(1)});
    }
  }

  /// The scales of b's rows, as the columns of the result have them.
  ValueId across(Rewriter& rw, ValueId scale) const {
    return scale == kNoValue ? scale : rw.reshape(scale, {Expr(1), tv::product(shape(scale))});
  }

  ValueId product_of_integers(Rewriter& rw, const Quantised& a, const Quantised& b,
                              bool batched) const {
    Shape out = shape(a.input);
    out.back() = shape(b.input)[batched ? 1 : 0];
    return rw.add("tv::matmul_integer",
                  {tensor_arg("a", a.input), tensor_arg("b", b.input),
                   tensor_arg("a_zero", a.zero_point), tensor_arg("b_zero", b.zero_point)},
                  DType::kI32, out);
  }

  /// The node's result from exact sums: scaled, with the bias added, rounded once.
  void finish(Rewriter& rw, const Node& node, const Pair& pair, ValueId sums,
              std::vector<ValueId> scales, ValueId bias) {
    ValueId y = rw.cast(sums, DType::kF32);
    std::erase(scales, kNoValue);
    // What depends on weights alone is one factor.
    if (scales.size() == 2 && scales_are_constant(pair)) {
      scales = {rw.pointwise("mul", scales, DType::kF32)};
    }
    for (const ValueId scale : scales) y = rw.pointwise("mul", {y, scale}, DType::kF32);
    const Value result = graph_.value(node.outputs[0]);
    if (bias != kNoValue) y = rw.pointwise("add", {y, bias}, DType::kF32);
    replaced_.add(node.outputs[0], rw.reshape(rw.cast(y, result.dtype), result.shape));
  }

  bool scales_are_constant(const Pair& pair) const {
    return is_constant(pair.a.dequantize->input("scale")) &&
           is_constant(pair.b.dequantize->input("scale"));
  }

  bool convolve(const Node& node) {
    const auto pair = pair_of(node.input("input"), node.input("weight"));
    const Arg* padding = node.find("padding");
    if (!pair) return false;
    if (!padding || std::holds_alternative<std::string>(padding->attr)) {
      return refuse("its padding is 'same' or 'valid'");
    }
    const Shape weight = shape(node.input("weight"));
    const size_t rank = weight.size();
    const Shape whole = shape(node.outputs[0]);
    if (whole.size() != rank) return refuse(kNoBatch);
    if (!(tv::product(pair->a_blocks) == Expr(1))) return refuse(kImageScales);
    if (!sums_fit(tv::product(std::span(weight).subspan(1)))) return refuse(kLongSums);
    if (!has_scales_of(0, weight, pair->b_blocks)) return refuse(kWeightScales);

    Rewriter rw(graph_, node, out_);
    const Quantised x = *viewed(rw, pair->a), w = *viewed(rw, pair->b);
    std::vector<Arg> args = {tensor_arg("input", x.input), tensor_arg("weight", w.input),
                             tensor_arg("input_zero", of_one(rw, x.zero_point)),
                             tensor_arg("weight_zero", of_one(rw, w.zero_point))};
    for (const char* name : {"stride", "padding", "dilation"}) args.push_back(node.arg(name));
    args.push_back(node.has("groups") ? node.arg("groups") : attr_arg("groups", Expr(1)));
    const ValueId sums = rw.add("tv::convolution_integer", std::move(args), DType::kI32, whole);
    Shape along(rank, Expr(1));
    along[1] = whole[1];
    const auto of_channels = [&](ValueId v) {
      if (v == kNoValue) return v;
      return rw.reshape(v, tv::product(shape(v)) == Expr(1) ? Shape(rank, Expr(1)) : along);
    };
    finish(rw, node, *pair, sums, {of_channels(x.scale), of_channels(w.scale)},
           of_channels(node.input("bias")));
    return true;
  }

  static bool is_transposed(const Node& node) {
    return node.op.starts_with("aten::conv_transpose") ||
           (node.op == "aten::convolution" && node.flag("transposed"));
  }

  /// tv::convolution_scaled, which is expanded into convolutions that are scaled before what they
  /// give is put in order.
  bool convolve_transposed(const Node& node) {
    const auto pair = pair_of(node.input("input"), node.input("weight"));
    if (!pair) return false;
    if (!is_constant(node.input("weight"))) return refuse("the weight is computed at each call");
    const Shape weight = shape(node.input("weight")), whole = shape(node.outputs[0]);
    const Expr groups = node.has("groups") ? node.expr("groups") : Expr(1);
    if (whole.size() != weight.size()) return refuse(kNoBatch);
    if (!(tv::product(pair->a_blocks) == Expr(1))) return refuse(kImageScales);
    if (!sums_fit(tv::product(std::span(weight).subspan(2)) * floordiv(weight[0], groups))) {
      return refuse(kLongSums);
    }
    if (!has_scales_of(1, weight, pair->b_blocks)) return refuse(kWeightScales);
    if (pair->a.dequantize->input("scale") == kNoValue &&
        pair->b.dequantize->input("scale") == kNoValue) {
      return refuse("it has no scale");
    }

    Rewriter rw(graph_, node, out_);
    const Quantised x = *viewed(rw, pair->a), w = *viewed(rw, pair->b);
    ValueId scale = of_one(rw, x.scale);
    if (w.scale != kNoValue) {
      const ValueId own = of_groups(rw, w.scale, groups);
      scale = scale == kNoValue ? own : rw.pointwise("mul", {scale, own}, DType::kF32);
    }
    std::vector<Arg> args = {tensor_arg("input", x.input),
                             tensor_arg("weight", w.input),
                             tensor_arg("input_zero", of_one(rw, x.zero_point)),
                             tensor_arg("weight_zero", of_groups(rw, w.zero_point, groups)),
                             tensor_arg("scale", scale),
                             tensor_arg("bias", node.input("bias")),
                             attr_arg("groups", groups),
                             attr_arg("transposed", true)};
    for (const char* name : {"stride", "padding", "dilation", "output_padding"}) {
      if (node.find(name)) args.push_back(node.arg(name));
    }
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    replaced_.add(node.outputs[0], rw.add("tv::convolution_scaled", std::move(args), dtype, whole));
    return true;
  }

  /// Numbers of a group's output channels as those of all: a row, or one.
  ValueId of_groups(Rewriter& rw, ValueId v, const Expr& groups) const {
    if (v == kNoValue) return v;
    const Expr count = tv::product(shape(v));
    if (count == Expr(1) || groups == Expr(1)) return rw.reshape(v, {count});
    const Shape all{groups, count};
    v = rw.add("aten::expand",
               {tensor_arg("self", rw.reshape(v, {Expr(1), count})), attr_arg("size", all)},
               graph_.value(v).dtype, all);
    return rw.reshape(v, {groups * count});
  }

  /// As a row of numbers.
  ValueId of_one(Rewriter& rw, ValueId v) const {
    return v == kNoValue ? v : rw.reshape(v, {tv::product(shape(v))});
  }

  Graph graph_;
  const std::vector<bool> constant_;
  const Makers makers_;
  std::vector<Node> out_;
  Replacements replaced_;
  std::vector<std::string> pair_;  ///< names of what a node multiplies, as far as it is quantised
  std::string why_;                ///< it is not multiplied as integers
};

/// The tensor whose elements `value` has, in whatever order.
ValueId moved_from(const Makers& makers, ValueId value) {
  for (const Node* node = makers.maker(value);
       node && moves(*node, {Moves::kReshapes, Moves::kSpreads, Moves::kPermutes});
       node = makers.maker(value)) {
    value = node->all_inputs().at(0);
  }
  return value;
}

/// Products and convolutions that are of integers in the model.
void note_products_of_integers(const Graph& graph, IntegerReads& reads) {
  const Makers makers(graph);
  for (const Node& node : graph.nodes) {
    const bool product = node.op == "tv::matmul_integer";
    if (!product && node.op != "tv::convolution_integer") continue;
    for (const char* operand : {product ? "a" : "input", product ? "b" : "weight"}) {
      reads.add(graph.value(moved_from(makers, node.input(operand))).name, node);
    }
  }
}

}  // namespace

const char* why_not_of_integers(const Graph& graph, const ProductOperands& product,
                                const Shape& a_blocks, const Shape& b_blocks) {
  const Shape &a = graph.value(product.a).shape, &b = graph.value(product.b).shape;
  if (a.size() < 2 || b.size() < 2) return "it is a vector";
  if (!sums_fit(graph, a.back())) return kLongSums;
  const size_t steps = b.size() - (product.b_by_steps ? 2 : 1);
  const size_t made = b.size() - (product.b_by_steps ? 1 : 2);
  if (!(a_blocks.back() == Expr(1)) || !(b_blocks[steps] == Expr(1))) {
    return "scales change along what is summed";
  }
  if (b.size() > 2) {
    const auto batch = [](const Shape& s) { return Shape(s.begin(), s.end() - 2); };
    const bool one_each = tv::product(a_blocks) == Expr(1) && tv::product(b_blocks) == Expr(1);
    if (!(batch(a) == batch(b)) || !one_each) return "a batch of matrices has several scales";
  } else if (!has_scales_of(made, b, b_blocks)) {
    return kWeightScales;
  }
  Shape rows = a;
  rows.back() = 1;
  const bool rows_differ = !(tv::product(a_blocks) == Expr(1));
  return rows_differ && !(a_blocks == rows) ? "scales are neither one nor those of rows" : nullptr;
}

Graph multiply_integers(Graph graph, IntegerReads* reads) {
  IntegerReads unread;
  if (reads) note_products_of_integers(graph, *reads);
  const auto is_dequantize = [](const Node& node) { return node.op == "tv::dequantize"; };
  if (std::ranges::none_of(graph.nodes, is_dequantize)) return graph;
  // Each reader of integers may have a tv::dequantize of its own.
  return IntegerMultiplier(simplify(std::move(graph))).run(reads ? *reads : unread);
}

}  // namespace tv

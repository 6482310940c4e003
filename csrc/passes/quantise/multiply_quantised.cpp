#include "csrc/passes/quantise/multiply_quantised.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "csrc/graph/edit.h"
#include "csrc/graph/provenance.h"
#include "csrc/graph/quantised.h"
#include "csrc/passes/kit/constants_first.h"
#include "csrc/passes/kit/integer_operand.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/passes/kit/quantised_pieces.h"
#include "csrc/passes/simplify/simplify.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

/// The quantised constant that a weight is made of, [n, k].
struct QuantisedWeight {
  Quantised q;
  ValueId factor = kNoValue;      ///< of all scales, one float: what scales of codes have
  bool scale_transposed = false;  ///< of codes: they lie in the other order
  bool transposed = false;        ///< it is [k, n]
  bool four_bits = false;         ///< its bytes are to become 4 bits each
  Shape shape, blocks;            ///< that its parts are to be given; empty: they have them
  const Node* made_by = nullptr;  ///< the last node of what dequantises
};

struct Planned {
  const Node* node = nullptr;
  ProductOperands product;
  QuantisedWeight weight;
};

class QuantisedMultiplier {
 public:
  explicit QuantisedMultiplier(Graph graph)
      : graph_(std::move(graph)), constant_(constant_values(graph_)) {}

  Graph run(std::vector<QuantisedOutcome>* outcomes, const IntegerReads& integers) {
    plan();
    for (const Node& node : nodes_) {
      if (!rewrite(node)) out_.push_back(node);
    }
    graph_.nodes = std::move(out_);
    replaced_.apply(graph_);
    if (outcomes) *outcomes = outcomes_of_quantised(graph_, {nodes_, constant_}, packed_, integers);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  bool is_constant(ValueId value) const {
    return value == kNoValue || constant_[static_cast<size_t>(value)];
  }

  const Node* maker(ValueId value) const {
    const int32_t index = made_by_[static_cast<size_t>(value)];
    return index < 0 ? nullptr : &nodes_[static_cast<size_t>(index)];
  }

  /// Scales that are computed from codes, and one float, are read as these codes, unless zero
  /// points have other blocks.
  void take_codes(QuantisedWeight& w) const {
    ValueId value = w.q.scale;
    const ValueId zero = w.q.zero_point;
    const bool alike = value == kNoValue || zero == kNoValue ||
                       graph_.value(zero).shape == graph_.value(value).shape;
    if (!alike) return;
    const Node* made = value == kNoValue ? nullptr : maker(value);
    for (; made && swaps_dimensions(*made); made = maker(value)) {
      value = made->input("self");
      w.scale_transposed = !w.scale_transposed;
    }
    if (!made || made->op != "tv::dequantize" || dtype(value) != DType::kF32) return;
    const Quantised scale = quantised_of(*made);
    const bool one =
        scale.scale == kNoValue ||
        (dtype(scale.scale) == DType::kF32 && product(graph_.value(scale.scale).shape) == Expr(1));
    if (scale.has_integers() || scale.bits != 8 || !one) return;
    if (!is_constant(scale.input) || !is_constant(scale.scale)) return;
    w.blocks = graph_.value(w.q.scale).shape;
    w.q.scale = scale.input;
    w.q.scale_format = scale.format;
    w.factor = scale.scale;
  }

  std::optional<QuantisedWeight> packed(ValueId value) const {
    QuantisedWeight w;
    if (graph_.rank(value) != 2 || !is_float(graph_.value(value).dtype)) return std::nullopt;
    for (const Node* node = maker(value); node; node = maker(value)) {
      if (node->op == "tv::dequantize") {
        w.q = quantised_of(*node);
        w.made_by = node;
        const bool small = size_bytes(graph_.value(w.q.input).dtype) == 1;
        const bool constant =
            is_constant(w.q.input) && is_constant(w.q.scale) && is_constant(w.q.zero_point);
        take_codes(w);
        return small && constant ? std::optional(w) : std::nullopt;
      }
      if (!swaps_dimensions(*node) && !keeps_values(*node)) {
        const auto pieces = quantised_pieces({graph_, nodes_, made_by_, constant_}, value);
        if (!pieces) return std::nullopt;
        w.q = pieces->q;
        w.shape = pieces->shape;
        w.blocks = pieces->blocks;
        w.made_by = node;
        return w;
      }
      w.transposed ^= swaps_dimensions(*node);
      value = node->all_inputs().at(0);
      const DType dtype = graph_.value(value).dtype;
      if (graph_.rank(value) != 2) return std::nullopt;
      if ((dtype == DType::kI8 || dtype == DType::kU8) && is_constant(value)) {
        w.q.input = value;  // integers as they are; whatever scales the product stays behind it
        w.made_by = node;
        return w;
      }
      if (!is_float(dtype)) return std::nullopt;
    }
    return std::nullopt;
  }

  /// Whether each of `rows` rows of the matrix [n, k] has scales and zero points of its own, or all
  /// share them, in groups that are the same for both.
  bool rows_fit(const QuantisedWeight& w, const Expr& rows) const {
    const Shape* first = nullptr;
    for (const ValueId part : {w.q.scale, w.q.zero_point}) {
      if (part == kNoValue) continue;
      const Shape& shape = w.blocks.empty() ? graph_.value(part).shape : w.blocks;
      const Expr& own = shape[w.transposed ? 1 : 0];
      if (!(own == Expr(1)) && !(own == rows)) return false;
      if (first && !(*first == shape)) return false;
      first = &shape;
    }
    return true;
  }

  /// Whether int8 elements are marked as ones of 4 bits, and bytes can hold pairs of one group.
  bool fits_four_bits(const QuantisedWeight& w, const Shape& rows) const {
    if (!graph_.value(w.q.input).four_bits || w.transposed) return false;
    if (w.q.zero_point != kNoValue && dtype(w.q.zero_point) != DType::kI8) return false;
    const bool whole = w.q.scale == kNoValue && w.q.zero_point == kNoValue;
    const Expr groups = whole ? Expr(1) : blocks_of(w)[1];
    return mod(rows[1], groups * Expr(2)) == Expr(0);
  }

  /// What a node multiplies, if by a quantised constant.
  std::optional<Planned> planned(const Node& node) const {
    const auto product = product_of(node);
    if (!product || product->a == kNoValue || is_constant(product->a)) return std::nullopt;
    auto weight = packed(product->b);
    if (!weight || !is_float(graph_.value(product->a).dtype)) return std::nullopt;
    weight->transposed ^= product->b_by_steps;
    // Two elements of a byte are neighbours along k.
    if (weight->transposed && weight->q.bits == 4) return std::nullopt;
    const Shape& rows = weight->shape.empty() ? graph_.value(weight->q.input).shape : weight->shape;
    if (!rows_fit(*weight, rows[weight->transposed ? 1 : 0])) return std::nullopt;
    weight->four_bits = fits_four_bits(*weight, rows);
    return Planned{&node, *product, *weight};
  }

  /// Products that can be one: of the same rows, with weights of one form. "": it stays alone.
  std::string family(const Planned& plan) const {
    const auto& [node, product, weight] = plan;
    const Shape out = graph_.value(node->outputs[0]).shape;
    std::string key = std::to_string(product.a) + type_text({.dtype = dtype(node->outputs[0])});
    if (product.bias != kNoValue) {
      if (!is_constant(product.bias) || !(graph_.value(product.bias).shape == Shape{out.back()})) {
        return "";
      }
      key += " bias " + type_text({.dtype = dtype(product.bias)});
    }
    key += " bits " + std::to_string(weight.four_bits ? 4 : weight.q.bits) + " " + weight.q.format +
           " " + weight.q.scale_format + (weight.factor != kNoValue ? " and a factor" : "");
    for (const ValueId part : {weight.q.input, weight.q.scale, weight.q.zero_point}) {
      key += part == kNoValue ? " none" : type_text({.dtype = dtype(part)});
    }
    if (weight.q.scale == kNoValue && weight.q.zero_point == kNoValue) return key;
    const Shape blocks = blocks_of(weight);
    const size_t of_rows = weight.transposed ? 1 : 0;
    // Scales that all rows share cannot stand beside others.
    if (!(blocks[of_rows] == out.back())) return "";
    return key + " groups " + blocks[1 - of_rows].str();
  }

  DType dtype(ValueId value) const { return graph_.value(value).dtype; }

  Shape blocks_of(const QuantisedWeight& weight) const {
    if (!weight.blocks.empty()) return weight.blocks;
    return graph_.value(weight.q.scale != kNoValue ? weight.q.scale : weight.q.zero_point).shape;
  }

  void plan() {
    put_constants_first(graph_);
    nodes_ = graph_.nodes;
    made_by_ = producers(graph_);
    std::map<std::string, size_t> family_of;
    for (const Node& node : nodes_) {
      auto found = planned(node);
      if (!found) continue;
      const std::string key = family(*found);
      size_t number = families_.size();
      if (!key.empty()) number = family_of.try_emplace(key, number).first->second;
      if (number == families_.size()) families_.emplace_back();
      families_[number].push_back(std::move(*found));
    }
    for (size_t i = 0; i < families_.size(); ++i) {
      for (const Planned& member : families_[i]) number_of_[member.node] = i;
    }
  }

  bool rewrite(const Node& node) {
    if (node.op == "aten::embedding") return embed(node);
    const auto number = number_of_.find(&node);
    if (number == number_of_.end()) return false;
    const std::vector<Planned>& family = families_[number->second];
    if (family.front().node == &node) multiply(family);
    return true;
  }

  /// The weight's parts as tv::matmul_quantised takes them, [n, k].
  Quantised normalised(Rewriter& rw, const QuantisedWeight& weight) const {
    Quantised q = weight.q;
    if (!q.scale_format.empty() && weight.scale_transposed) q.scale = rw.permute(q.scale, {1, 0});
    if (!weight.shape.empty()) {
      Shape held = weight.shape;
      if (q.bits == 4) held.back() = floordiv(held.back(), 2);
      q.input = rw.reshape(q.input, held);
      for (ValueId* part : {&q.scale, &q.zero_point}) {
        if (*part != kNoValue) *part = rw.reshape(*part, weight.blocks);
      }
    }
    for (ValueId* part : {&q.input, &q.scale, &q.zero_point}) {
      if (*part != kNoValue && weight.transposed) *part = rw.permute(*part, {1, 0});
    }
    if (weight.four_bits) pack_four_bits(rw, q);
    return q;
  }

  void pack_four_bits(Rewriter& rw, Quantised& q) const {
    Shape held = graph_.value(q.input).shape;
    held.back() = floordiv(held.back(), 2);
    std::vector<std::pair<DType, Shape>> made = {{DType::kU8, held}};
    const bool zeros = q.zero_point != kNoValue;
    if (zeros) made.emplace_back(DType::kU8, graph_.value(q.zero_point).shape);
    const std::vector<ValueId> packed =
        rw.add_multi("tv::pack_four_bits",
                     {tensor_arg("input", q.input), tensor_arg("zero_point", q.zero_point)}, made);
    q.input = packed[0];
    if (zeros) q.zero_point = packed[1];
    q.bits = 4;
  }

  /// Below one another; the value itself where it is alone.
  ValueId joined(Rewriter& rw, const std::vector<ValueId>& parts) const {
    if (parts.size() == 1 || parts[0] == kNoValue) return parts[0];
    Shape shape = graph_.value(parts[0]).shape;
    const DType type = dtype(parts[0]);
    shape[0] = 0;
    for (const ValueId part : parts) shape[0] += graph_.value(part).shape[0];
    return rw.add("aten::cat", {tensor_list_arg("tensors", parts), attr_arg("dim", Expr(0))}, type,
                  std::move(shape));
  }

  /// Whether a weight's order of elements is given to what it is multiplied by, behind views.
  bool is_gathered(ValueId x) const {
    for (const Node* node = maker(x); node; node = maker(x)) {
      if (node->op == "aten::index_select") return is_constant(node->input("index"));
      const std::vector<ValueId> reads = node->all_inputs();
      if (reads.size() != 1) return false;
      x = reads.front();
    }
    return false;
  }

  /// The factor of scales for each of so many rows.
  ValueId factor_of_rows(Rewriter& rw, ValueId factor, const Expr& rows) const {
    if (factor == kNoValue) return kNoValue;
    factor = rw.reshape(factor, {Expr(1)});
    if (rows == Expr(1)) return factor;
    return rw.add("aten::expand", {tensor_arg("self", factor), attr_arg("size", Shape{rows})},
                  dtype(factor), {rows});
  }

  /// The node that stands for all of a family, for names.
  static Node representative(const std::vector<Planned>& family) {
    Node like = *family.front().node;
    like.fused_ops.clear();
    for (const Planned& member : family) {
      like.module_path = common_module(like.module_path, member.node->module_path);
      like.fused_ops.push_back(member.node->op);
    }
    return like;
  }

  void multiply(const std::vector<Planned>& family) {
    const Node like = representative(family);
    Rewriter rw(graph_, like, out_);
    Quantised q;
    std::vector<ValueId> inputs, scales, zeros, biases, factors;
    for (const auto& [node, product, weight] : family) {
      PackedReads& readers = packed_[weight.made_by];
      ++readers.products;
      if (weight.four_bits) ++readers.four_bits;
      if (is_gathered(product.a)) ++readers.gathered;
      readers.tensor = graph_.value(weight.q.input).name;
      q = normalised(rw, weight);
      inputs.push_back(q.input);
      scales.push_back(q.scale);
      zeros.push_back(q.zero_point);
      biases.push_back(product.bias);
      const Expr rows = graph_.value(q.input).shape[0];
      factors.push_back(factor_of_rows(rw, weight.factor, family.size() > 1 ? rows : Expr(1)));
    }
    q.input = joined(rw, inputs);
    q.scale = joined(rw, scales);
    q.zero_point = joined(rw, zeros);
    const ValueId factor = joined(rw, factors);
    const ValueId bias = joined(rw, biases), given = family.front().product.a;
    const Shape x_shape = graph_.value(given).shape;
    const DType type = dtype(like.outputs[0]);
    const Expr rows = tv::product(std::span(x_shape).first(x_shape.size() - 1));
    std::vector<Arg> args = arguments_of(q);
    args.insert(args.begin(), tensor_arg("a", rw.reshape(given, {rows, x_shape.back()})));
    // 16-bit sums are rounded once, behind the factor and the bias.
    const DType sums = bias != kNoValue || factor != kNoValue ? DType::kF32 : type;
    const Expr columns = graph_.value(q.input).shape[0];
    ValueId out = rw.add("tv::matmul_quantised", std::move(args), sums, {rows, columns});
    if (factor != kNoValue) out = rw.pointwise("mul", {out, factor}, sums);
    if (bias != kNoValue) out = rw.pointwise("add", {out, bias}, sums);
    hand_out(rw, rw.cast(out, type), family);
  }

  /// Columns of `all` in place of the results of a family.
  void hand_out(Rewriter& rw, ValueId all, const std::vector<Planned>& family) {
    Expr from = 0;
    for (const auto& [node, product, weight] : family) {
      const Shape shape = graph_.value(node->outputs[0]).shape;
      ValueId part = all;
      if (family.size() > 1) {
        part = rw.add("aten::slice.Tensor",
                      {tensor_arg("self", all), attr_arg("dim", Expr(1)), attr_arg("start", from),
                       attr_arg("end", from + shape.back()), attr_arg("step", Expr(1))},
                      dtype(all), {graph_.value(all).shape[0], shape.back()});
        from += shape.back();
      }
      replaced_.add(node->outputs[0], rw.reshape(part, shape));
    }
  }

  /// dequantize(table)[indices] as dequantize(table[indices]).
  bool embed(const Node& node) {
    const ValueId table = node.input("weight");
    const Node* made = table == kNoValue ? nullptr : maker(table);
    if (!made || made->op != "tv::dequantize") return false;
    const auto weight = packed(table);
    if (!weight || !rows_fit(*weight, graph_.value(table).shape[0])) return false;
    ++packed_[made].lookups;
    Rewriter rw(graph_, node, out_);
    Quantised q = weight->q;
    if (!q.scale_format.empty() && weight->scale_transposed) {
      q.scale = rw.permute(q.scale, {1, 0});
    }
    const Shape out = graph_.value(node.outputs[0]).shape;
    for (ValueId* part : {&q.input, &q.scale, &q.zero_point}) {
      if (*part != kNoValue) *part = rows_of(rw, node, *part);
    }
    if (!q.scale_format.empty()) q.scale = decoded_scales(rw, q, weight->factor);
    q.scale_format.clear();
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    replaced_.add(node.outputs[0], rw.add("tv::dequantize", arguments_of(q), dtype, out));
    return true;
  }

  /// What an embedding looks up in a part of a quantised table: one for all rows, or its rows.
  ValueId rows_of(Rewriter& rw, const Node& embedding, ValueId part) const {
    const Value whole = graph_.value(part);
    const Shape& out = graph_.value(embedding.outputs[0]).shape;
    Shape rows(out.begin(), out.end() - 1);
    if (whole.shape[0] == Expr(1)) std::fill(rows.begin(), rows.end(), Expr(1));
    rows.push_back(whole.shape.back());
    if (whole.shape[0] == Expr(1)) return rw.reshape(part, rows);
    std::vector<Arg> args = embedding.args;
    for (Arg& arg : args) {
      if (arg.name == "weight") arg.values = {part};
    }
    return rw.add(embedding.op, std::move(args), whole.dtype, rows);
  }

  /// The floats of q's scales, which are codes.
  ValueId decoded_scales(Rewriter& rw, const Quantised& q, ValueId factor) const {
    const Shape shape = graph_.value(q.scale).shape;
    const Shape ones(shape.size(), Expr(1));
    if (factor != kNoValue) factor = rw.reshape(factor, ones);
    return rw.add("tv::dequantize",
                  arguments_of({.input = q.scale, .scale = factor, .format = q.scale_format}),
                  DType::kF32, shape);
  }

  Graph graph_;
  const std::vector<bool> constant_;
  std::vector<Node> nodes_;  ///< as they were
  std::vector<int32_t> made_by_;
  std::vector<std::vector<Planned>> families_;  ///< of nodes, by their first
  std::map<const Node*, size_t> number_of_;
  std::vector<Node> out_;
  Replacements replaced_;
  std::map<const Node*, PackedReads> packed_;  ///< by what dequantises
};

}  // namespace

Graph multiply_quantised(Graph graph, std::vector<QuantisedOutcome>* outcomes,
                         const IntegerReads& integers) {
  const bool some = std::ranges::any_of(graph.values, [](const Value& value) {
    return value.dtype == DType::kI8 || value.dtype == DType::kU8;
  });
  if (!some && integers.reads.empty()) return graph;
  // Equal inputs must be one value to be seen as such.
  return QuantisedMultiplier(simplify(std::move(graph))).run(outcomes, integers);
}

}  // namespace tv

#include "csrc/passes/quantise/merge_integer_products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/graph/provenance.h"
#include "csrc/passes/kit/constants_first.h"
#include "csrc/passes/kit/integer_operand.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/passes/quantise/multiply_integers.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

/// A product with a quantised constant.
struct Member {
  const Node* node = nullptr;
  ProductOperands product;
  IntegerOperand weight;
};

class ProductMerger {
 public:
  explicit ProductMerger(Graph graph)
      : graph_(std::move(graph)), constant_(constant_values(graph_)), makers_(graph_) {}

  Graph run() {
    std::map<std::string, std::vector<Member>> groups;
    std::map<const Node*, std::string> key_of;
    for (const Node& node : graph_.nodes) {
      const auto member = member_of(node);
      if (!member) continue;
      key_of[&node] = key(*member);
      groups[key_of[&node]].push_back(*member);
    }
    for (const Node& node : graph_.nodes) {
      const auto found = key_of.find(&node);
      const std::vector<Member>* group =
          found == key_of.end() ? nullptr : &groups.at(found->second);
      if (!group || group->size() < 2) {
        out_.push_back(node);
      } else if (group->front().node == &node) {
        join(*group);
      }
    }
    graph_.nodes = std::move(out_);
    replaced_.apply(graph_);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  bool is_constant(ValueId v) const { return constant_[static_cast<size_t>(v)]; }
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }
  DType dtype(ValueId v) const { return graph_.value(v).dtype; }
  static size_t columns(const Member& m) { return m.product.b_by_steps ? 1 : 0; }

  std::optional<Member> member_of(const Node& node) const {
    const auto product = product_of(node);
    if (!product || product->a == kNoValue || product->b == kNoValue) return std::nullopt;
    if (is_constant(product->a) || !is_constant(product->b)) return std::nullopt;
    const auto weight = integer_operand(graph_, makers_, product->b);
    const auto input = integer_operand(graph_, makers_, product->a);
    if (!weight || !input) return std::nullopt;
    const Member member{&node, *product, *weight};
    const auto of_input = viewed_blocks(graph_, *input), blocks = viewed_blocks(graph_, *weight);
    if (!of_input || !blocks || blocks->size() != 2) return std::nullopt;
    if (why_not_of_integers(graph_, *product, *of_input, *blocks)) return std::nullopt;
    const ValueId out = node.outputs[0];
    if (!shape(out).back().constant() || is_quantised(out)) return std::nullopt;
    const bool row =
        product->bias == kNoValue ||
        (is_constant(product->bias) && shape(product->bias) == Shape{shape(out).back()});
    return row ? std::optional(member) : std::nullopt;
  }

  /// Whether something quantises `v`, or what is computed of each of its elements.
  bool is_quantised(ValueId v) const {
    std::set<ValueId> seen = {v};
    for (std::vector<ValueId> left = {v}; !left.empty();) {
      const ValueId value = left.back();
      left.pop_back();
      for (const int32_t reader : makers_.readers(value)) {
        const Node& node = graph_.nodes[static_cast<size_t>(reader)];
        if (node.op == "tv::quantize") return true;
        const Converter* converter = Registry::instance().find(node.op);
        const bool of_each =
            moves(node, {Moves::kCasts, Moves::kCopies, Moves::kReshapes, Moves::kPermutes}) ||
            (converter && converter->pointwise);
        const ValueId out = node.outputs[0];
        if (of_each && seen.insert(out).second) left.push_back(out);
      }
    }
    return false;
  }

  /// Those that can be one have the same.
  std::string key(const Member& m) const {
    const Quantised q = quantised_of(*m.weight.dequantize);
    std::string text = m.node->op + " " + std::to_string(m.product.a);
    for (const ValueId v :
         {q.input, q.scale, q.zero_point, m.product.b, m.product.bias, m.node->outputs[0]}) {
      text += v == kNoValue ? " none" : " " + std::string(name(dtype(v)));
    }
    return text;
  }

  /// Beside one another along a dimension.
  ValueId joined(Rewriter& rw, const std::vector<ValueId>& parts, size_t dim) const {
    if (parts[0] == kNoValue) return kNoValue;
    Shape all = shape(parts[0]);
    all[dim] = 0;
    for (const ValueId part : parts) all[dim] += shape(part)[dim];
    return rw.add(
        "aten::cat",
        {tensor_list_arg("tensors", parts), attr_arg("dim", Expr(static_cast<int64_t>(dim)))},
        dtype(parts[0]), all);
  }

  /// A scale or zero point with an element for each of the weight's columns.
  ValueId of_columns(Rewriter& rw, ValueId part, const Member& m) const {
    if (part == kNoValue) return part;
    Shape all = shape(part);
    const Expr& count = shape(m.product.b)[columns(m)];
    if (all[columns(m)] == count) return part;
    all[columns(m)] = count;
    return rw.add("aten::expand", {tensor_arg("self", part), attr_arg("size", all)}, dtype(part),
                  all);
  }

  void join(const std::vector<Member>& group) {
    const Member& first = group.front();
    Node like = *first.node;
    like.fused_ops.clear();
    for (const Member& m : group) {
      like.module_path = common_module(like.module_path, m.node->module_path);
      like.fused_ops.push_back(m.node->op);
    }
    Rewriter rw(graph_, like, out_);
    std::vector<ValueId> inputs, scales, zeros, biases;
    for (const Member& m : group) {
      const Quantised q = *viewed(rw, m.weight);
      inputs.push_back(q.input);
      scales.push_back(of_columns(rw, q.scale, m));
      zeros.push_back(of_columns(rw, q.zero_point, m));
      biases.push_back(m.product.bias);
    }
    Quantised q = quantised_of(*first.weight.dequantize);
    const size_t dim = columns(first);
    q.input = joined(rw, inputs, dim);
    q.scale = joined(rw, scales, dim);
    q.zero_point = joined(rw, zeros, dim);
    const Shape whole = shape(q.input);
    const ValueId weight = rw.add("tv::dequantize", arguments_of(q), dtype(first.product.b), whole);
    hand_out(rw, multiplied(rw, first, weight, joined(rw, biases, 0)), group);
  }

  /// The first of a group with all of its weights.
  ValueId multiplied(Rewriter& rw, const Member& first, ValueId weight, ValueId bias) const {
    const ProductArgs& names = *Registry::instance().find(first.node->op)->product;
    std::vector<Arg> args = first.node->args;
    for (Arg& arg : args) {
      if (arg.name == names.b) arg.values = {weight};
      if (names.bias && arg.name == names.bias) arg.values = {bias};
    }
    Shape out = shape(first.node->outputs[0]);
    out.back() = shape(weight)[columns(first)];
    return rw.add(first.node->op, std::move(args), dtype(first.node->outputs[0]), out);
  }

  /// Columns of `all` in place of the results of a group.
  void hand_out(Rewriter& rw, ValueId all, const std::vector<Member>& group) {
    Expr from = 0;
    for (const Member& m : group) {
      const Shape part = shape(m.node->outputs[0]);
      const Expr to = from + part.back();
      const auto last = static_cast<int64_t>(part.size()) - 1;
      replaced_.add(
          m.node->outputs[0],
          rw.add("aten::slice.Tensor",
                 {tensor_arg("self", all), attr_arg("dim", Expr(last)), attr_arg("start", from),
                  attr_arg("end", to), attr_arg("step", Expr(1))},
                 dtype(all), part));
      from = to;
    }
  }

  Graph graph_;
  const std::vector<bool> constant_;
  const Makers makers_;
  std::vector<Node> out_;
  Replacements replaced_;
};

}  // namespace

Graph merge_integer_products(Graph graph) {
  const auto is_dequantize = [](const Node& node) { return node.op == "tv::dequantize"; };
  if (std::ranges::none_of(graph.nodes, is_dequantize)) return graph;
  // Each reader of integers may have a tv::dequantize of its own.
  graph = simplify(std::move(graph));
  put_constants_first(graph);
  return ProductMerger(std::move(graph)).run();
}

}  // namespace tv

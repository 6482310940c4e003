#include "csrc/passes/quantise/whole_products.h"

#include <algorithm>
#include <optional>
#include <set>

#include "csrc/passes/kit/makers.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/safe_softmax.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

bool is_view(const Node& node) { return moves(node, {Moves::kReshapes}); }

class WholeProducts {
 public:
  explicit WholeProducts(Graph graph) : graph_(std::move(graph)), makers_(graph_) {}

  Graph run() {
    std::vector<std::pair<const Node*, Node>> made;
    for (const Node& softmax : graph_.nodes) {
      if (softmax.op != "aten::_softmax") continue;
      const Node* safe = safe_end(softmax);
      const Node* first = scores_of(softmax, safe != nullptr);
      const Node* second = first ? product_with((safe ? *safe : softmax).outputs[0]) : nullptr;
      if (!second) continue;
      const auto one = whole(*first), other = whole(*second);
      if (!one || !other) continue;
      made.emplace_back(first, *one);
      made.emplace_back(second, *other);
    }
    if (made.empty()) return std::move(graph_);
    for (auto& [node, product] : made) {
      graph_.nodes[static_cast<size_t>(node - graph_.nodes.data())] = std::move(product);
    }
    return simplify(std::move(graph_));  // the pieces
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }

  /// The end of a safe softmax that is made of this one.
  const Node* safe_end(const Node& softmax) const {
    const auto maker = [&](ValueId v) { return makers_.maker(v); };
    for (const int32_t reader : makers_.readers(softmax.outputs[0])) {
      const Node& node = graph_.nodes[static_cast<size_t>(reader)];
      if (safe_softmax(&node, maker).softmax == &softmax) return &node;
    }
    return nullptr;
  }

  /// The view that gives the product of queries and keys its heads, where a tanh lies between it
  /// and the softmax, or the softmax is a safe one.
  const Node* scores_of(const Node& softmax, bool safe) const {
    static const std::set<std::string> kBetween = {"aten::mul.Scalar", "aten::mul.Tensor",
                                                   "aten::div.Scalar", "aten::div.Tensor",
                                                   "aten::add.Tensor", "aten::tanh"};
    bool capped = false;
    const ValueId scores = softmax.input("self");
    if (safe && (makers_.readers(scores).size() != 2 || makers_.is_result(scores))) return nullptr;
    for (ValueId v = scores; (safe && v == scores) || makers_.only_reader(v);) {
      const Node* node = makers_.maker(v);
      if (!node) return nullptr;
      if (is_view(*node)) return capped || safe ? node : nullptr;
      if (!kBetween.contains(node->op) && !moves(*node, {Moves::kCasts})) return nullptr;
      capped |= node->op == "aten::tanh";
      v = node->all_inputs().at(0);
    }
    return nullptr;
  }

  /// The view of the product of what `v` is, as it is or cast, with something.
  const Node* product_with(ValueId v) const {
    const Node* node = makers_.only_reader(v);
    while (node && (copies(*node) || moves(*node, {Moves::kCasts}))) {
      node = makers_.only_reader(node->outputs[0]);
    }
    const Node* bmm = node && is_view(*node) ? makers_.only_reader(node->outputs[0]) : nullptr;
    if (!bmm || bmm->op != "aten::bmm" || bmm->input("self") != node->outputs[0]) return nullptr;
    const Node* view = makers_.only_reader(bmm->outputs[0]);
    return view && is_view(*view) ? view : nullptr;
  }

  /// Whether its result is its input, element by element.
  bool copies(const Node& node) const {
    return moves(node, {Moves::kCopies}) ||
           (moves(node, {Moves::kSpreads}) && shape(node.input("self")) == shape(node.outputs[0]));
  }

  /// The product that a view of a bmm shows.
  std::optional<Node> whole(const Node& view) const {
    const Node* bmm = makers_.only(view.input("self"), "aten::bmm");
    if (!bmm || shape(view.outputs[0]).size() != 4) return std::nullopt;
    const ValueId a = heads_of(bmm->input("self"), view);
    ValueId b = heads_of(bmm->input("mat2"), view);
    if (a == kNoValue || b == kNoValue) return std::nullopt;
    b = shared_head(b);
    if (!(shape(a)[2] == shape(view.outputs[0])[2])) return std::nullopt;
    if (!(shape(b)[3] == shape(view.outputs[0])[3])) return std::nullopt;
    Node product = *bmm;
    product.op = "aten::matmul";
    product.args = {tensor_arg("self", a), tensor_arg("other", b)};
    product.outputs = view.outputs;
    return product;
  }

  /// What an operand of a bmm is a view of, with the batch and the heads of `result`.
  ValueId heads_of(ValueId operand, const Node& result) const {
    const Node* view = makers_.maker(operand);
    if (!view || !is_view(*view)) return kNoValue;
    ValueId v = view->input("self");
    const Shape &heads = shape(v), &rows = shape(operand), &out = shape(result.outputs[0]);
    const bool same = heads.size() == 4 && heads[0] == out[0] && heads[1] == out[1] &&
                      heads[2] == rows[1] && heads[3] == rows[2];
    if (!same) return kNoValue;
    for (const Node* node = makers_.maker(v); node && copies(*node); node = makers_.maker(v)) {
      v = node->input("self");
    }
    return v;
  }

  /// The head that all of `v`'s are.
  ValueId shared_head(ValueId v) const {
    const Node* node = makers_.maker(v);
    if (!node || !moves(*node, {Moves::kSpreads})) return v;
    Shape one = shape(v);
    one[1] = Expr(1);
    return shape(node->input("self")) == one ? node->input("self") : v;
  }

  Graph graph_;
  const Makers makers_;
};

}  // namespace

Graph whole_products(Graph graph) { return WholeProducts(std::move(graph)).run(); }

}  // namespace tv

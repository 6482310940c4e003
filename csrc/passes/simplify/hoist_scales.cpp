#include "csrc/passes/simplify/hoist_scales.h"

#include <algorithm>
#include <optional>

#include "csrc/graph/edit.h"

namespace tv {
namespace {

class ScaleHoister {
 public:
  explicit ScaleHoister(Graph graph)
      : graph_(std::move(graph)),
        constant_(constant_values(graph_)),
        made_by_(producers(graph_)),
        read_by_(consumers(graph_)) {}

  Graph run() {
    const std::vector<Node> nodes = std::move(graph_.nodes);
    std::vector<Node> kept;
    std::vector<bool> gone(nodes.size(), false);
    // Backwards, so that a product is seen before the scalings of its operands.
    std::vector<std::vector<Node>> in_place(nodes.size());
    for (size_t i = nodes.size(); i-- > 0;) {
      if (gone[i]) continue;
      in_place[i] = {nodes[i]};
      if (is_product(nodes[i])) hoist(nodes, in_place[i], gone);
    }
    for (auto& list : in_place) {
      for (Node& node : list) kept.push_back(std::move(node));
    }
    graph_.nodes = std::move(kept);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  struct Scaled {
    size_t node = 0;
    ValueId value = kNoValue, scale = kNoValue;
  };

  DType dtype(ValueId value) const { return graph_.value(value).dtype; }

  bool is_product(const Node& node) const {
    return (node.op == "aten::matmul" || node.op == "aten::bmm" || node.op == "aten::mm") &&
           dtype(node.outputs[0]) == DType::kF32;
  }

  bool is_scale(ValueId value) const {
    const Value& v = graph_.value(value);
    return constant_[static_cast<size_t>(value)] && v.dtype == DType::kF32 &&
           std::all_of(v.shape.begin(), v.shape.end(),
                       [](const Expr& size) { return size == Expr(1); });
  }

  bool is_output(ValueId value) const {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                       [&](const GraphOutput& output) { return output.value == value; });
  }

  /// The multiplication by a scale that makes `value` for one reader alone.
  std::optional<Scaled> scaled(const std::vector<Node>& nodes, ValueId value) const {
    const int32_t maker = value == kNoValue ? -1 : made_by_[static_cast<size_t>(value)];
    if (maker < 0 || constant_[static_cast<size_t>(value)]) return std::nullopt;
    const Node& node = nodes[static_cast<size_t>(maker)];
    if (node.op != "aten::mul.Tensor" || is_output(value)) return std::nullopt;
    if (read_by_[static_cast<size_t>(value)].size() != 1) return std::nullopt;
    ValueId a = node.input("self"), scale = node.input("other");
    if (is_scale(a)) std::swap(a, scale);
    const bool same = dtype(a) == DType::kF32 && graph_.value(a).shape == graph_.value(value).shape;
    if (!is_scale(scale) || is_scale(a) || !same) return std::nullopt;
    return Scaled{.node = static_cast<size_t>(maker), .value = a, .scale = scale};
  }

  /// `list` holds the product; then the product of what is not scaled and what scales it.
  void hoist(const std::vector<Node>& nodes, std::vector<Node>& list, std::vector<bool>& gone) {
    Node product = std::move(list[0]);
    list.clear();
    ValueId scale = kNoValue;
    const bool square =
        product.all_inputs().size() == 2 && product.all_inputs()[0] == product.all_inputs()[1];
    for (Arg& arg : product.args) {
      if (!arg.is_tensor || square) continue;
      const auto found = scaled(nodes, arg.values[0]);
      if (!found) continue;
      gone[found->node] = true;
      arg.values[0] = found->value;
      scale = scale == kNoValue ? found->scale : multiplied(product, scale, found->scale, list);
    }
    if (scale == kNoValue) {
      list.push_back(std::move(product));
      return;
    }
    Node scaling = node_for(product, "aten::mul.Tensor", "_scaled");
    scaling.outputs = product.outputs;  // readers stay as they are
    product.outputs.clear();
    const Value& out = graph_.value(scaling.outputs[0]);
    const ValueId raw = graph_.add_output(product, out.dtype, Shape(out.shape));
    scaling.args = {tensor_arg("self", raw), tensor_arg("other", scale)};
    list.push_back(std::move(product));
    list.push_back(std::move(scaling));
  }

  ValueId multiplied(const Node& product, ValueId a, ValueId b, std::vector<Node>& list) {
    Node node = node_for(product, "aten::mul.Tensor", "_scale");
    node.args = {tensor_arg("self", a), tensor_arg("other", b)};
    const Shape &one = graph_.value(a).shape, &other = graph_.value(b).shape;
    const ValueId out =
        graph_.add_output(node, DType::kF32, Shape(one.size() > other.size() ? one : other));
    list.push_back(std::move(node));
    return out;
  }

  Graph graph_;
  std::vector<bool> constant_;
  std::vector<int32_t> made_by_;
  std::vector<std::vector<int32_t>> read_by_;
};

}  // namespace

Graph hoist_scales(Graph graph) { return ScaleHoister(std::move(graph)).run(); }

}  // namespace tv

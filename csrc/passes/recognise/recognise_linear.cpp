#include "csrc/passes/recognise/recognise_linear.h"

#include <map>
#include <optional>

#include "csrc/graph/edit.h"
#include "csrc/graph/provenance.h"

namespace tv {
namespace {

class LinearRecogniser {
 public:
  explicit LinearRecogniser(Graph graph)
      : graph_(std::move(graph)),
        constant_(constant_values(graph_)),
        made_by_(producers(graph_)),
        read_by_(consumers(graph_)) {}

  Graph run() {
    const std::vector<Node> nodes = std::move(graph_.nodes);
    std::map<size_t, int32_t> product_of;  // an addition's matmul
    std::vector<bool> gone(nodes.size(), false);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto product = added_product(nodes, nodes[i]);
      if (!product || gone[static_cast<size_t>(*product)]) continue;
      product_of.emplace(i, *product);
      gone[static_cast<size_t>(*product)] = true;
    }
    graph_.nodes.clear();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (gone[i]) continue;
      const auto added = product_of.find(i);
      if (added != product_of.end()) {
        emit(nodes[static_cast<size_t>(added->second)], &nodes[i]);
      } else if (is_linear(nodes[i])) {
        emit(nodes[i], nullptr);
      } else {
        graph_.nodes.push_back(nodes[i]);
      }
    }
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  bool is_constant(ValueId value) const { return constant_[static_cast<size_t>(value)]; }
  const Shape& shape(ValueId value) const { return graph_.value(value).shape; }

  /// matmul of rows of a matrix, or of several, with a constant matrix.
  bool is_linear(const Node& node) const {
    if (node.op != "aten::matmul") return false;
    const ValueId x = node.input("self"), weight = node.input("other");
    return shape(x).size() >= 2 && shape(weight).size() == 2 && is_constant(weight) &&
           !is_constant(x) && is_float(graph_.value(x).dtype);
  }

  /// The bias, where `node` adds a constant row to `product`.
  std::optional<ValueId> bias_of(const Node& node, ValueId product) const {
    if (node.op != "aten::add.Tensor" || !is_one(node, "alpha")) return std::nullopt;
    const ValueId self = node.input("self"), other = node.input("other");
    if (self == other || (self != product && other != product)) return std::nullopt;
    const ValueId bias = self == product ? other : self;
    const bool row = bias != kNoValue && shape(bias).size() == 1 &&
                     shape(bias)[0] == shape(product).back() && is_constant(bias) &&
                     graph_.value(bias).dtype == graph_.value(product).dtype;
    return row ? std::optional(bias) : std::nullopt;
  }

  /// The number of the matmul whose result nothing but `node` reads, which adds a bias to it.
  std::optional<int32_t> added_product(const std::vector<Node>& nodes, const Node& node) const {
    if (node.op != "aten::add.Tensor") return std::nullopt;
    for (const ValueId value : {node.input("self"), node.input("other")}) {
      const int32_t maker = value == kNoValue ? -1 : made_by_[static_cast<size_t>(value)];
      if (maker < 0 || !is_linear(nodes[static_cast<size_t>(maker)])) continue;
      if (read_by_[static_cast<size_t>(value)].size() != 1 || is_output(value)) continue;
      if (bias_of(node, value)) return maker;
    }
    return std::nullopt;
  }

  bool is_output(ValueId value) const {
    for (const GraphOutput& output : graph_.outputs) {
      if (output.value == value) return true;
    }
    return false;
  }

  ValueId as_matrix(const Node& reader, ValueId x) {
    if (shape(x).size() == 2) return x;
    const auto [found, fresh] = matrices_.try_emplace(x, kNoValue);
    if (fresh) {
      const Shape& whole = shape(x);
      const Shape rows = {product(std::span(whole).first(whole.size() - 1)), whole.back()};
      Node node = node_for(reader, "aten::reshape", "_rows");
      node.args = {tensor_arg("self", x), attr_arg("shape", std::vector<Expr>(rows))};
      found->second = append(graph_, std::move(node), graph_.value(x).dtype, rows);
    }
    return found->second;
  }

  /// The product, and what `addition` adds to it, in their place.
  void emit(const Node& matmul, const Node* addition) {
    const Node& last = addition ? *addition : matmul;
    const ValueId x = as_matrix(matmul, matmul.input("self"));
    const ValueId weight = matmul.input("other"), out = last.outputs[0];
    const Shape whole = shape(out);
    Node node = node_for(last, addition ? "aten::addmm" : "aten::mm", "");
    if (addition) {
      node.module_path = common_module(matmul.module_path, addition->module_path);
      node.args = {tensor_arg("self", *bias_of(*addition, matmul.outputs[0])),
                   tensor_arg("mat1", x), tensor_arg("mat2", weight), attr_arg("beta", Expr(1)),
                   attr_arg("alpha", Expr(1))};
    } else {
      node.args = {tensor_arg("self", x), tensor_arg("mat2", weight)};
    }
    if (whole.size() == 2) {
      node.outputs = {out};
      graph_.nodes.push_back(std::move(node));
      return;
    }
    const ValueId rows =
        append(graph_, std::move(node), graph_.value(out).dtype, {shape(x)[0], shape(weight)[1]});
    Node back = node_for(last, "aten::reshape", "_shape");
    back.args = {tensor_arg("self", rows), attr_arg("shape", std::vector<Expr>(whole))};
    back.outputs = {out};  // readers stay as they are
    graph_.nodes.push_back(std::move(back));
  }

  Graph graph_;
  std::vector<bool> constant_;
  std::vector<int32_t> made_by_;
  std::vector<std::vector<int32_t>> read_by_;
  std::map<ValueId, ValueId> matrices_;
};

}  // namespace

Graph recognise_linear(Graph graph) { return LinearRecogniser(std::move(graph)).run(); }

}  // namespace tv

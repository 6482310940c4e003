#include "csrc/passes/simplify/merge_matmuls.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "csrc/graph/edit.h"
#include "csrc/graph/provenance.h"
#include "csrc/passes/kit/constants_first.h"
#include "csrc/passes/kit/moves.h"

namespace tv {

namespace {

/// x · weight [+ bias], or x · transpose(weight) where `transposed`.
struct Product {
  int32_t node = 0;
  ValueId x = kNoValue, weight = kNoValue, bias = kNoValue;
  bool transposed = false;
  size_t columns() const { return transposed ? 0 : 1; }  ///< dimension of the weight
};

class MatmulMerger {
 public:
  MatmulMerger(Graph graph, bool calibrated)
      : graph_(std::move(graph)), constant_(constant_values(graph_)), calibrated_(calibrated) {
    put_constants_first(graph_);
    made_by_ = producers(graph_);
  }

  Graph run() {
    // Ordered by the place of the first product, so that the result is deterministic.
    std::vector<std::vector<Product>> groups;
    std::map<std::tuple<ValueId, bool, bool, DType>, std::vector<size_t>> groups_of;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto product = product_of(static_cast<int32_t>(i));
      if (!product) continue;
      const auto key = std::tuple(product->x, product->bias != kNoValue, product->transposed,
                                  graph_.value(graph_.nodes[i].outputs[0]).dtype);
      std::vector<size_t>& alike = groups_of[key];
      const auto group = std::ranges::find_if(alike, [&](size_t g) {
        return same_calibration(graph_.nodes[i], node_of(groups[g].front()));
      });
      if (group == alike.end()) {
        alike.push_back(groups.size());
        groups.push_back({*product});
      } else {
        groups[*group].push_back(*product);
      }
    }
    std::map<int32_t, const std::vector<Product>*> first_of;
    std::vector<bool> gone(graph_.nodes.size(), false);
    for (const auto& group : groups) {
      if (group.size() < 2) continue;
      first_of[group[0].node] = &group;
      for (const Product& p : group) gone[static_cast<size_t>(p.node)] = true;
    }
    const std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto it = first_of.find(static_cast<int32_t>(i));
      if (it != first_of.end()) join(*it->second, nodes);
      if (!gone[i]) graph_.nodes.push_back(nodes[i]);
    }
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  bool is_constant(ValueId value) const { return constant_[static_cast<size_t>(value)]; }
  const Node& node_of(const Product& p) const { return graph_.nodes[static_cast<size_t>(p.node)]; }

  /// What a calibration has written into a node beside its scale.
  static std::vector<Arg> calibration_of(const Node& node) {
    std::vector<Arg> found;
    for (const Arg& arg : node.args) {
      if (!arg.is_tensor && arg.name != "beta" && arg.name != "alpha") found.push_back(arg);
    }
    return found;
  }

  static bool same_calibration(const Node& a, const Node& b) {
    return a.input_scale == b.input_scale &&
           std::ranges::equal(calibration_of(a), calibration_of(b), [](const Arg& x, const Arg& y) {
             return x.name == y.name && x.attr == y.attr;
           });
  }

  std::optional<Product> product_of(int32_t index) const {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    if (calibrated_ && node.input_scale == 0) return std::nullopt;
    const bool with_bias = node.op == "aten::addmm";
    if (!with_bias && node.op != "aten::mm") return std::nullopt;
    if (with_bias && !(is_one(node, "beta") && is_one(node, "alpha"))) return std::nullopt;
    Product p{.node = index, .x = node.input(with_bias ? "mat1" : "self")};
    // A product of constants is one of those nodes, among which others' weights may come later; it
    // is computed once for each set of weights anyway.
    if (is_constant(p.x)) return std::nullopt;
    if (with_bias) {
      p.bias = node.input("self");
      const Value& bias = graph_.value(p.bias);
      const bool row =
          bias.shape.size() == 1 && bias.shape[0] == graph_.value(node.outputs[0]).shape[1];
      if (!is_constant(p.bias) || !row) return std::nullopt;
    }
    p.weight = node.input("mat2");
    if (!is_constant(p.weight)) return std::nullopt;
    const int32_t maker = made_by_[static_cast<size_t>(p.weight)];
    if (maker < 0) return p;  // a weight, as it is
    const Node& transpose = graph_.nodes[static_cast<size_t>(maker)];
    p.transposed = permutation(graph_, transpose) == std::vector<int64_t>{1, 0};
    if (p.transposed) p.weight = transpose.input("self");
    return p;
  }

  ValueId add(const Node& like, const std::string& op, std::vector<Arg> args, Shape shape) {
    Node node;
    node.op = op;
    node.name = like.name + "_joined_" + op.substr(op.rfind(':') + 1);
    node.args = std::move(args);
    node.source = like.source;
    node.module_path = like.module_path;
    node.fused_ops = like.fused_ops;
    const ValueId out =
        graph_.add_output(node, graph_.value(like.outputs[0]).dtype, std::move(shape));
    graph_.nodes.push_back(std::move(node));
    return out;
  }

  ValueId side_by_side(const Node& like, std::vector<ValueId> parts, size_t dim) {
    Shape shape = graph_.value(parts[0]).shape;
    shape[dim] = 0;
    for (ValueId part : parts) shape[dim] += graph_.value(part).shape[dim];
    return add(like, "aten::cat",
               {tensor_list_arg("tensors", std::move(parts)),
                attr_arg("dim", Expr(static_cast<int64_t>(dim)))},
               shape);
  }

  void join(const std::vector<Product>& group, const std::vector<Node>& nodes) {
    Node like;
    like.name = nodes[static_cast<size_t>(group[0].node)].name;
    like.outputs = nodes[static_cast<size_t>(group[0].node)].outputs;
    like.source = nodes[static_cast<size_t>(group[0].node)].source;
    like.module_path = nodes[static_cast<size_t>(group[0].node)].module_path;
    std::vector<ValueId> weights, biases;
    for (const Product& p : group) {
      const Node& node = nodes[static_cast<size_t>(p.node)];
      like.module_path = common_module(like.module_path, node.module_path);
      like.fused_ops.push_back(node.op);
      weights.push_back(p.weight);
      biases.push_back(p.bias);
    }
    ValueId weight = side_by_side(like, weights, group[0].columns());
    if (group[0].transposed) {
      const Shape wide = graph_.value(weight).shape;
      weight = add(like, "aten::t", {tensor_arg("self", weight)}, {wide[1], wide[0]});
    }
    const Shape shape = {graph_.value(group[0].x).shape[0], graph_.value(weight).shape[1]};
    ValueId all = kNoValue;
    if (group[0].bias != kNoValue) {
      all = add(like, "aten::addmm",
                {tensor_arg("self", side_by_side(like, biases, 0)), tensor_arg("mat1", group[0].x),
                 tensor_arg("mat2", weight), attr_arg("beta", Expr(1)), attr_arg("alpha", Expr(1))},
                shape);
    } else {
      all = add(like, "aten::mm", {tensor_arg("self", group[0].x), tensor_arg("mat2", weight)},
                shape);
    }
    Node& joined = graph_.nodes.back();
    const Node& first = nodes[static_cast<size_t>(group[0].node)];
    joined.input_scale = first.input_scale;
    std::ranges::move(calibration_of(first), std::back_inserter(joined.args));
    Expr from = 0;
    for (const Product& p : group) {
      const Node& node = nodes[static_cast<size_t>(p.node)];
      const Expr to = from + graph_.value(p.weight).shape[p.columns()];
      Node part;
      part.op = "aten::slice.Tensor";
      part.name = node.name;
      part.args = {tensor_arg("self", all), attr_arg("dim", Expr(1)), attr_arg("start", from),
                   attr_arg("end", to), attr_arg("step", Expr(1))};
      part.outputs = node.outputs;  // readers stay as they are
      part.source = node.source;
      part.module_path = node.module_path;
      graph_.nodes.push_back(std::move(part));
      from = to;
    }
  }

  Graph graph_;
  std::vector<bool> constant_;  // by value
  const bool calibrated_;       // those with a scale alone
  std::vector<int32_t> made_by_;
};

}  // namespace

Graph merge_matmuls(Graph graph) { return MatmulMerger(std::move(graph), false).run(); }

Graph merge_calibrated(Graph graph) { return MatmulMerger(std::move(graph), true).run(); }

}  // namespace tv

#include <gtest/gtest.h>

#include <cmath>

#include "csrc/passes/quantise/whole_products.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct ProductPieces : GraphBuilder {
  ValueId op1(const std::string& op, ValueId x, Shape shape, std::vector<Arg> attrs = {}) {
    attrs.insert(attrs.begin(), tensor_arg("self", x));
    return node(op, std::move(attrs), {{DType::kF32, std::move(shape)}}).outputs[0];
  }
  ValueId view(ValueId x, Shape shape) {
    return op1("aten::view", x, shape, {attr_arg("size", shape)});
  }
  /// As PyTorch writes a product of [2, 3, m, k] and [2, 3, k, n].
  ValueId product(ValueId a, ValueId b, int64_t m, int64_t k, int64_t n) {
    a = view(op1("aten::expand", a, {2, 3, m, k}), {6, m, k});
    b = view(op1("aten::expand", b, {2, 3, k, n}), {6, k, n});
    return view(op1("aten::bmm", a, {6, m, n}, {tensor_arg("mat2", b)}), {2, 3, m, n});
  }
  size_t count(const std::string& op) const {
    size_t found = 0;
    for (const Node& n : graph.nodes) found += n.op == op;
    return found;
  }
};

TEST(WholeProducts, BesideASoftmaxOfCappedScores) {
  for (const bool capped : {true, false}) {
    ProductPieces b;
    const ValueId q = b.input({2, 3, 5, 8}), k = b.input({2, 3, 8, 7}), v = b.input({2, 3, 7, 4});
    ValueId s = b.product(q, k, 5, 8, 7);
    if (capped) s = b.op1("aten::tanh", s, {2, 3, 5, 7});
    s = b.op1("aten::_softmax", s, {2, 3, 5, 7},
              {attr_arg("dim", Expr(-1)), attr_arg("half_to_float", false)});
    b.output(b.product(b.op1("aten::clone", s, {2, 3, 5, 7}), v, 5, 7, 4));
    b.graph = whole_products(b.graph);
    check(b.graph, "test");
    EXPECT_EQ(b.count("aten::matmul"), capped ? 2u : 0u) << dump(b.graph);
    EXPECT_EQ(b.graph.nodes.size(), capped ? 4u : 14u) << dump(b.graph);
    if (!capped) continue;
    EXPECT_EQ(b.graph.nodes[0].all_inputs(), (std::vector<ValueId>{q, k}));
    EXPECT_EQ(b.graph.nodes[3].all_inputs(), (std::vector<ValueId>{s, v}));
  }
}

/// As PyTorch writes a softmax whose rows of hidden keys alone are zeros; [2, 3, 5, 7].
ValueId safe_softmax_of(ProductPieces& b, ValueId s, double hidden) {
  const Shape square = {2, 3, 5, 7};
  const ValueId p = b.op1("aten::_softmax", s, square,
                          {attr_arg("dim", Expr(-1)), attr_arg("half_to_float", false)});
  const ValueId is = b.node("aten::eq.Scalar", {tensor_arg("self", s), attr_arg("other", hidden)},
                            {{DType::kBool, square}})
                         .outputs[0];
  const ValueId all =
      b.node("aten::all.dim",
             {tensor_arg("self", is), attr_arg("dim", Expr(-1)), attr_arg("keepdim", true)},
             {{DType::kBool, {2, 3, 5, 1}}})
          .outputs[0];
  const ValueId zeros = b.op1("aten::zeros_like", p, square);
  return b
      .node("aten::where.self",
            {tensor_arg("condition", all), tensor_arg("self", zeros), tensor_arg("other", p)},
            {{DType::kF32, square}})
      .outputs[0];
}

TEST(WholeProducts, BesideASafeSoftmaxWithOneHeadOfKeys) {
  for (const double hidden : {-HUGE_VAL, 0.0}) {
    ProductPieces b;
    const ValueId q = b.input({2, 3, 5, 8}), k = b.input({2, 1, 8, 7}), v = b.input({2, 1, 7, 4});
    const ValueId s = safe_softmax_of(b, b.product(q, k, 5, 8, 7), hidden);
    b.output(b.product(s, v, 5, 7, 4));
    b.graph = whole_products(b.graph);
    check(b.graph, "test");
    if (hidden == 0) {
      EXPECT_EQ(b.count("aten::matmul"), 0u) << dump(b.graph);
      continue;
    }
    ASSERT_EQ(b.count("aten::matmul"), 2u) << dump(b.graph);
    EXPECT_EQ(b.graph.nodes.front().all_inputs(), (std::vector<ValueId>{q, k}));
    EXPECT_EQ(b.graph.nodes.back().all_inputs(), (std::vector<ValueId>{s, v}));
  }
}

TEST(WholeProducts, ScoresThatAreReadElsewhereStay) {
  ProductPieces b;
  const ValueId q = b.input({2, 3, 5, 8}), k = b.input({2, 3, 8, 7}), v = b.input({2, 3, 7, 4});
  ValueId s = b.op1("aten::tanh", b.product(q, k, 5, 8, 7), {2, 3, 5, 7});
  b.output(s);
  s = b.op1("aten::_softmax", s, {2, 3, 5, 7},
            {attr_arg("dim", Expr(-1)), attr_arg("half_to_float", false)});
  b.output(b.product(s, v, 5, 7, 4));
  EXPECT_EQ(whole_products(b.graph).nodes.size(), b.graph.nodes.size());
}

}  // namespace
}  // namespace tv

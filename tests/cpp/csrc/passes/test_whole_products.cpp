#include <gtest/gtest.h>

#include "csrc/passes/whole_products.h"
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

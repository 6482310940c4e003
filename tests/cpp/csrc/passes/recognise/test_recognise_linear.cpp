#include <gtest/gtest.h>

#include "csrc/passes/recognise/recognise_linear.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Linear : GraphBuilder {
  ValueId matmul(ValueId x, ValueId w, Shape shape) {
    return node("aten::matmul", {tensor_arg("self", x), tensor_arg("other", w)},
                {{DType::kF32, std::move(shape)}})
        .outputs[0];
  }
  ValueId plus(ValueId a, ValueId b, double alpha = 1) {
    return node("aten::add.Tensor",
                {tensor_arg("self", a), tensor_arg("other", b), attr_arg("alpha", alpha)},
                {{DType::kF32,
                  graph.value(a).shape.size() > 1 ? graph.value(a).shape : graph.value(b).shape}})
        .outputs[0];
  }
  size_t count(const std::string& op) const {
    size_t found = 0;
    for (const Node& n : graph.nodes) found += n.op == op;
    return found;
  }
};

TEST(RecogniseLinear, ThreeOfOneInputShareItsRows) {
  Linear b;
  const int32_t batch = b.symbol("batch");
  const ValueId x = b.input({Expr::symbol(batch), 7, 5});
  for (int i = 0; i < 3; ++i) {
    const ValueId m = b.matmul(x, b.weight({5, 4}), {Expr::symbol(batch), 7, 4});
    const ValueId bias = b.weight({4});
    b.output(i == 1 ? b.plus(bias, m) : b.plus(m, bias));
  }
  b.graph = recognise_linear(b.graph);
  check(b.graph, "test");
  EXPECT_EQ(b.count("aten::addmm"), 3u) << dump(b.graph);
  EXPECT_EQ(b.count("aten::reshape"), 4u) << "one before, three after\n" << dump(b.graph);
  EXPECT_EQ(b.count("aten::matmul") + b.count("aten::add.Tensor"), 0u);
  for (const Node& node : b.graph.nodes) {
    if (node.op != "aten::addmm") continue;
    EXPECT_EQ(b.graph.value(node.outputs[0]).shape, (Shape{Expr::symbol(batch) * 7, 4}));
  }
}

TEST(RecogniseLinear, OfAMatrixNeedsNoReshape) {
  Linear b;
  const ValueId y = b.matmul(b.input({7, 5}), b.weight({5, 4}), {7, 4});
  b.output(y);
  b.graph = recognise_linear(b.graph);
  check(b.graph, "test");
  EXPECT_EQ(b.count("aten::mm"), 1u);
  EXPECT_EQ(b.graph.nodes.size(), 1u);
  EXPECT_EQ(b.graph.nodes[0].outputs[0], y);
}

TEST(RecogniseLinear, KeepsWhatElseReadsTheProduct) {
  Linear b;
  const ValueId m = b.matmul(b.input({7, 5}), b.weight({5, 4}), {7, 4});
  b.output(b.plus(m, b.weight({4})));
  b.output(m);
  b.graph = recognise_linear(b.graph);
  check(b.graph, "test");
  EXPECT_EQ(b.count("aten::mm"), 1u);
  EXPECT_EQ(b.count("aten::add.Tensor"), 1u);
}

TEST(RecogniseLinear, LeavesOtherSumsAndProductsAlone) {
  Linear b;
  const ValueId x = b.input({7, 5});
  b.output(b.plus(b.matmul(x, b.weight({5, 4}), {7, 4}), b.weight({7, 4})));  // no row
  b.output(b.plus(b.matmul(x, b.weight({5, 4}), {7, 4}), b.weight({4}), 2));  // alpha
  b.output(b.plus(b.matmul(x, b.weight({5, 4}), {7, 4}), b.input({4})));      // not constant
  b.output(b.matmul(x, b.input({5, 4}), {7, 4}));
  b.output(b.matmul(b.input({2, 7, 5}), b.weight({2, 5, 4}), {2, 7, 4}));
  b.graph = recognise_linear(b.graph);
  check(b.graph, "test");
  EXPECT_EQ(b.count("aten::addmm"), 0u);
  EXPECT_EQ(b.count("aten::mm"), 3u);
  EXPECT_EQ(b.count("aten::matmul"), 2u);
  EXPECT_EQ(b.count("aten::add.Tensor"), 3u);
}

}  // namespace
}  // namespace tv

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/graph/quantised.h"
#include "csrc/passes/quantise/merge_integer_products.h"
#include "csrc/passes/quantise/multiply_integers.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Siblings : GraphBuilder {
  ValueId x = dequantize(input({3, 32}, DType::kU8), {1, 1}, true);

  ValueId dequantize(ValueId q, Shape blocks, bool zero = false) {
    const ValueId scale = weight(blocks), zeros = zero ? weight(blocks, DType::kI8) : kNoValue;
    return node("tv::dequantize", arguments_of({.input = q, .scale = scale, .zero_point = zeros}),
                {{DType::kF32, Shape(graph.value(q).shape)}})
        .outputs[0];
  }
  /// The input times a weight [32, columns] with so many scales.
  ValueId product(int64_t columns, int64_t scales, bool zero = false) {
    const ValueId w = dequantize(weight({32, columns}, DType::kI8), {1, scales}, zero);
    return node("aten::mm", {tensor_arg("self", x), tensor_arg("mat2", w)},
                {{DType::kF32, {3, columns}}})
        .outputs[0];
  }
  ValueId quantize(ValueId v) {
    return node("tv::quantize",
                {tensor_arg("input", v), tensor_arg("scale", weight({1})),
                 tensor_arg("zero_point", kNoValue), attr_arg("step", {}),
                 attr_arg("quant_min", Expr(-128)), attr_arg("quant_max", Expr(127)),
                 attr_arg("divides", false)},
                {{DType::kI8, Shape(graph.value(v).shape)}})
        .outputs[0];
  }
  std::vector<Shape> products() {
    graph = multiply_integers(merge_integer_products(graph));
    check(graph, "test");
    std::vector<Shape> shapes;
    for (const Node& n : graph.nodes) {
      if (n.op == "tv::matmul_integer") shapes.push_back(graph.value(n.outputs[0]).shape);
    }
    return shapes;
  }
};

TEST(MergeIntegerProducts, SiblingsAreOne) {
  Siblings b;
  b.output(b.product(6, 6));
  b.output(b.product(4, 1));  // one scale for all columns
  b.output(b.product(2, 2));
  EXPECT_EQ(b.products(), (std::vector<Shape>{{3, 12}})) << dump(b.graph);
  Expr from = 0;
  for (size_t i = 0; i < 3; ++i) {
    const auto made = std::ranges::find_if(
        b.graph.nodes, [&](const Node& n) { return n.outputs[0] == b.graph.outputs[i].value; });
    ASSERT_EQ(made->op, "aten::slice.Tensor") << dump(b.graph);
    EXPECT_EQ(made->expr("start"), from);
    from = made->expr("end");
    EXPECT_EQ(b.graph.value(made->outputs[0]).shape, (Shape{3, i == 0 ? 6 : i == 1 ? 4 : 2}));
  }
}

/// What multiply_integers does not take stays apart, too: it is merged as floats, or not at all.
TEST(MergeIntegerProducts, ProductsOfFloatsStayApart) {
  const auto left = [](Siblings& b) {
    b.graph = merge_integer_products(b.graph);
    return std::ranges::count_if(b.graph.nodes, [](const Node& n) { return n.op == "aten::mm"; });
  };
  Siblings channels;
  for (int i = 0; i < 2; ++i) channels.output(channels.product(6, 3));  // a scale for two columns
  EXPECT_EQ(left(channels), 2);
  Siblings steps;
  steps.x = steps.dequantize(steps.input({3, 32}, DType::kU8), {1, 4}, true);
  for (int i = 0; i < 2; ++i) steps.output(steps.product(6, 6));
  EXPECT_EQ(left(steps), 2);
}

/// Of other dtypes of scales and zero points, of another input.
TEST(MergeIntegerProducts, OthersStayApart) {
  Siblings b;
  b.output(b.product(6, 6));
  b.output(b.product(4, 4, true));
  b.x = b.dequantize(b.input({3, 32}, DType::kU8), {1, 1}, true);
  b.output(b.product(2, 2));
  EXPECT_EQ(b.products(), (std::vector<Shape>{{3, 6}, {3, 4}, {3, 2}}));
}

/// They store bytes, by scales of their own.
TEST(MergeIntegerProducts, QuantisedResultsStayApart) {
  Siblings b;
  b.output(b.product(6, 6));
  b.output(b.product(4, 4));
  const ValueId last = b.product(2, 2);
  b.output(b.quantize(
      b.node("aten::relu", {tensor_arg("self", last)}, {{DType::kF32, {3, 2}}}).outputs[0]));
  EXPECT_EQ(b.products(), (std::vector<Shape>{{3, 10}, {3, 2}}));
}

/// What is computed of many elements is no epilogue that could quantise: as an attention of query,
/// key and value.
TEST(MergeIntegerProducts, WhatIsQuantisedBehindOtherOperatorsIsMerged) {
  Siblings b;
  b.output(b.product(6, 6));
  const ValueId scores = b.product(4, 4);
  b.output(b.quantize(b.node("aten::_softmax",
                             {tensor_arg("self", scores), attr_arg("dim", Expr(1)),
                              attr_arg("half_to_float", false)},
                             {{DType::kF32, {3, 4}}})
                          .outputs[0]));
  EXPECT_EQ(b.products(), (std::vector<Shape>{{3, 10}}));
}

}  // namespace
}  // namespace tv

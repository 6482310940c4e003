#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/graph/quantised.h"
#include "csrc/passes/quantise/multiply_quantised.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Quantising : GraphBuilder {
  ValueId dequantize(ValueId input, ValueId scale, Shape shape, int64_t bits = 8) {
    return node("tv::dequantize", arguments_of({.input = input, .scale = scale, .bits = bits}),
                {{DType::kF32, std::move(shape)}})
        .outputs[0];
  }
  ValueId transpose(ValueId x) {
    const Shape shape = graph.value(x).shape;
    return node("aten::t", {tensor_arg("self", x)}, {{graph.value(x).dtype, {shape[1], shape[0]}}})
        .outputs[0];
  }
  ValueId mm(ValueId x, ValueId w) {
    const Shape out = {graph.value(x).shape[0], graph.value(w).shape[1]};
    return node("aten::mm", {tensor_arg("self", x), tensor_arg("mat2", w)}, {{DType::kF32, out}})
        .outputs[0];
  }
  ValueId cast(ValueId x, DType dtype) {
    return node("aten::_to_copy", {tensor_arg("self", x), attr_arg("dtype", dtype)},
                {{dtype, Shape(graph.value(x).shape)}})
        .outputs[0];
  }
  ValueId binary(const char* op, ValueId a, ValueId b) {
    return node(op, {tensor_arg("self", a), tensor_arg("other", b), attr_arg("alpha", Expr(1))},
                {{DType::kF32, Shape(graph.value(a).shape)}})
        .outputs[0];
  }
  ValueId view(ValueId x, Shape shape) {
    return node("aten::view", {tensor_arg("self", x), attr_arg("size", shape)},
                {{graph.value(x).dtype, shape}})
        .outputs[0];
  }
  ValueId quantised(Shape shape = {6, 32}) { return weight(std::move(shape), DType::kI8); }

  std::vector<QuantisedOutcome> run() {
    std::vector<QuantisedOutcome> outcomes;
    graph = multiply_quantised(graph, &outcomes);
    check(graph, "test");
    return outcomes;
  }
  const Node* product() const {
    for (const Node& n : graph.nodes) {
      if (n.op == "tv::matmul_quantised") return &n;
    }
    return nullptr;
  }
};

TEST(MultiplyQuantised, ProductsReadWhatIsPacked) {
  Quantising b;
  const ValueId x = b.input({3, 32}), q = b.quantised(), scale = b.weight({6, 4});
  b.output(b.mm(x, b.transpose(b.dequantize(q, scale, {6, 32}))));
  const auto outcomes = b.run();
  ASSERT_TRUE(b.product()) << dump(b.graph);
  EXPECT_EQ(b.product()->input("input"), q);
  EXPECT_EQ(b.product()->input("scale"), scale);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].outcome, "read packed by 1 product");
}

/// A weight of int8 that is marked, or not, with groups along k.
struct FourBits : Quantising {
  ValueId q = kNoValue;
  std::vector<QuantisedOutcome> outcomes;

  FourBits(bool marked, int64_t groups, DType zero, bool by_steps = false) {
    const Shape whole = by_steps ? Shape{32, 6} : Shape{6, 32};
    const Shape blocks = by_steps ? Shape{groups, 6} : Shape{6, groups};
    q = quantised(whole);
    graph.value(q).four_bits = marked;
    const ValueId w =
        node(
            "tv::dequantize",
            arguments_of({.input = q, .scale = weight(blocks), .zero_point = weight(blocks, zero)}),
            {{DType::kF32, whole}})
            .outputs[0];
    output(mm(input({3, 32}), by_steps ? w : transpose(w)));
    outcomes = run();
  }
};

TEST(MultiplyQuantised, IntegersOfFourBitsArePacked) {
  const FourBits b(true, 4, DType::kI8);
  ASSERT_TRUE(b.product()) << dump(b.graph);
  EXPECT_EQ(b.product()->integer("bits"), 4);
  const auto pack = std::ranges::find(b.graph.nodes, "tv::pack_four_bits", &Node::op);
  ASSERT_NE(pack, b.graph.nodes.end());
  EXPECT_EQ(pack->input("input"), b.q);
  EXPECT_EQ(b.product()->input("input"), pack->outputs[0]);
  EXPECT_EQ(b.product()->input("zero_point"), pack->outputs[1]);
  EXPECT_EQ(b.graph.value(pack->outputs[0]).shape, (Shape{6, 16}));
  EXPECT_EQ(b.graph.value(pack->outputs[1]).shape, (Shape{6, 4}));
  EXPECT_EQ(b.outcomes.at(0).outcome, "read packed by 1 product, in 4 bits");
}

/// Without the mark; with zero points of another dtype, which may be any numbers; where a byte
/// would hold elements of two groups, or of two rows.
TEST(MultiplyQuantised, OtherIntegersStayBytes) {
  for (const FourBits& b : {FourBits(false, 4, DType::kI8), FourBits(true, 4, DType::kI32),
                            FourBits(true, 32, DType::kI8), FourBits(true, 4, DType::kI8, true)}) {
    ASSERT_TRUE(b.product()) << dump(b.graph);
    EXPECT_EQ(b.product()->integer("bits"), 8);
    EXPECT_EQ(b.outcomes.at(0).outcome, "read packed by 1 product");
  }
}

TEST(MultiplyQuantised, ProductsOfAnyRankReadWhatIsPacked) {
  Quantising b;
  const ValueId w = b.transpose(b.dequantize(b.quantised(), b.weight({6, 1}), {6, 32}));
  b.output(b.node("aten::matmul", {tensor_arg("self", b.input({2, 3, 32})), tensor_arg("other", w)},
                  {{DType::kF32, {2, 3, 6}}})
               .outputs[0]);
  EXPECT_EQ(b.run().at(0).outcome, "read packed by 1 product");
  ASSERT_TRUE(b.product()) << dump(b.graph);
}

/// Scales of 8 bits and one float for all of them are read as they are, in either order.
TEST(MultiplyQuantised, ScalesOfCodesStayCodes) {
  for (const bool transposed : {false, true}) {
    Quantising b;
    const ValueId codes = b.weight({6, 32}, DType::kU8);
    const ValueId scales = b.weight(transposed ? Shape{4, 6} : Shape{6, 4}, DType::kU8);
    const ValueId factor = b.weight({1, 1});
    ValueId scale =
        b.node("tv::dequantize",
               arguments_of({.input = scales, .scale = factor, .format = "float8_e4m3fn"}),
               {{DType::kF32, Shape(b.graph.value(scales).shape)}})
            .outputs[0];
    if (transposed) scale = b.transpose(scale);
    const ValueId w =
        b.node("tv::dequantize",
               arguments_of({.input = codes, .scale = scale, .format = "float8_e5m2"}),
               {{DType::kF32, {6, 32}}})
            .outputs[0];
    b.output(b.mm(b.input({3, 32}), b.transpose(w)));
    const auto outcomes = b.run();
    ASSERT_TRUE(b.product()) << dump(b.graph);
    EXPECT_EQ(b.product()->text("format"), "float8_e5m2");
    EXPECT_EQ(b.product()->text("scale_format"), "float8_e4m3fn");
    EXPECT_EQ(b.graph.value(b.product()->input("scale")).shape, (Shape{6, 4}));
    ASSERT_EQ(outcomes.size(), 1u) << "a scale is part of its tensor";
    EXPECT_EQ(outcomes[0].outcome, "read packed by 1 product");
  }
}

/// A product has one form of blocks for scales and zero points, whatever scales are made of.
TEST(MultiplyQuantised, ZeroPointsOfOtherBlocksThanScalesOfCodesStay) {
  for (const int64_t groups : {4, 1}) {
    Quantising b;
    const ValueId scale =
        b.node("tv::dequantize",
               arguments_of({.input = b.weight({6, 4}, DType::kU8), .format = "float8_e4m3fn"}),
               {{DType::kF32, {6, 4}}})
            .outputs[0];
    const ValueId w = b.node("tv::dequantize",
                             arguments_of({.input = b.quantised(),
                                           .scale = scale,
                                           .zero_point = b.weight({6, groups}, DType::kI8)}),
                             {{DType::kF32, {6, 32}}})
                          .outputs[0];
    b.output(b.mm(b.input({3, 32}), b.transpose(w)));
    b.run();
    EXPECT_EQ(b.product() != nullptr, groups == 4) << dump(b.graph);
  }
}

TEST(MultiplyQuantised, CodesAreNoIntegers) {
  Quantising b;
  const auto quantised = [&](ValueId input, Shape shape) {
    return b
        .node("tv::dequantize",
              arguments_of({.input = input, .scale = b.weight({1, 1}), .format = "float8_e4m3fn"}),
              {{DType::kF32, std::move(shape)}})
        .outputs[0];
  };
  const ValueId x = quantised(b.input({3, 32}, DType::kU8), {3, 32});
  b.output(b.mm(x, b.transpose(quantised(b.weight({6, 32}, DType::kU8), {6, 32}))));
  b.graph = multiply_integers(b.graph);
  for (const Node& node : b.graph.nodes) EXPECT_NE(node.op, "tv::matmul_integer");
}

TEST(MultiplyQuantised, TheOtherOrderIsTransposed) {
  Quantising b;
  b.output(b.mm(b.input({3, 6}), b.dequantize(b.quantised(), b.weight({6, 1}), {6, 32})));
  b.run();
  ASSERT_TRUE(b.product()) << dump(b.graph);
  EXPECT_EQ(b.graph.value(b.product()->input("input")).shape, (Shape{32, 6}));
  EXPECT_EQ(b.graph.value(b.product()->input("scale")).shape, (Shape{1, 6}));
}

TEST(MultiplyQuantised, FourBitsAlongTheOtherDimensionStay) {
  Quantising b;
  const ValueId q = b.weight({6, 16}, DType::kU8);
  b.output(b.mm(b.input({3, 6}), b.dequantize(q, b.weight({6, 4}), {6, 32}, 4)));
  const auto outcomes = b.run();
  EXPECT_FALSE(b.product());
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].outcome,
            "computed once for each set of weights and held as float32[6, 32], for aten::mm");
}

TEST(MultiplyQuantised, WhatIsNotConstantStays) {
  Quantising b;
  const ValueId q = b.input({6, 32}, DType::kI8);
  b.output(b.mm(b.input({3, 32}), b.transpose(b.dequantize(q, b.weight({6, 4}), {6, 32}))));
  b.output(
      b.mm(b.input({3, 32}), b.transpose(b.dequantize(b.quantised(), b.input({6, 4}), {6, 32}))));
  const auto outcomes = b.run();
  EXPECT_FALSE(b.product());
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].outcome, "computed at each call as float32[6, 32], for aten::mm");
}

TEST(MultiplyQuantised, OtherReadersKeepTheirFloats) {
  Quantising b;
  const ValueId w = b.dequantize(b.quantised(), b.weight({6, 1}), {6, 32});
  b.output(b.mm(b.input({3, 32}), b.transpose(w)));
  b.output(b.work({w}, {6, 32}));
  const auto outcomes = b.run();
  ASSERT_TRUE(b.product());
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].outcome,
            "read packed by 1 product; computed once for each set of weights and held as "
            "float32[6, 32], for t::work");
}

TEST(MultiplyQuantised, RowsOfAnEmbeddingAreLookedUpFirst) {
  Quantising b;
  const ValueId q = b.quantised({50, 8}), i = b.input({2, 3}, DType::kI64);
  const ValueId table = b.dequantize(q, b.weight({50, 2}), {50, 8});
  b.output(b.node("aten::embedding", {tensor_arg("weight", table), tensor_arg("indices", i)},
                  {{DType::kF32, {2, 3, 8}}})
               .outputs[0]);
  const auto outcomes = b.run();
  const Node& last = b.graph.nodes.back();
  EXPECT_EQ(last.op, "tv::dequantize") << dump(b.graph);
  EXPECT_EQ(b.graph.value(last.input("input")).shape, (Shape{2, 3, 8}));
  EXPECT_EQ(b.graph.value(last.input("scale")).shape, (Shape{2, 3, 2}));
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].outcome, "read packed by 1 embedding");
}

size_t count_of(const Graph& graph, const std::string& op) {
  size_t found = 0;
  for (const Node& node : graph.nodes) found += node.op == op;
  return found;
}

TEST(MultiplyQuantised, ProductsOfTheSameRowsAreOne) {
  Quantising b;
  const ValueId x = b.input({3, 32});
  std::vector<ValueId> results;
  for (const int64_t rows : {6, 4, 10}) {
    const ValueId w = b.dequantize(b.quantised({rows, 32}), b.weight({rows, 4}), {rows, 32});
    results.push_back(b.node("aten::addmm",
                             {tensor_arg("self", b.weight({rows})), tensor_arg("mat1", x),
                              tensor_arg("mat2", b.transpose(w)), attr_arg("beta", Expr(1)),
                              attr_arg("alpha", Expr(1))},
                             {{DType::kF32, {3, rows}}})
                          .outputs[0]);
    b.output(b.work({results.back()}, {3, rows}));
  }
  const auto outcomes = b.run();
  EXPECT_EQ(count_of(b.graph, "tv::matmul_quantised"), 1u) << dump(b.graph);
  EXPECT_EQ(b.graph.value(b.product()->outputs[0]).shape, (Shape{3, 20}));
  EXPECT_EQ(b.graph.value(b.product()->input("scale")).shape, (Shape{20, 4}));
  EXPECT_EQ(count_of(b.graph, "aten::slice.Tensor"), 3u);
  EXPECT_EQ(count_of(b.graph, "tv::pointwise"), 1u) << "one addition of all biases";
  ASSERT_EQ(outcomes.size(), 3u);
  for (const QuantisedOutcome& outcome : outcomes)
    EXPECT_EQ(outcome.outcome, "read packed by 1 product");
}

TEST(MultiplyQuantised, ProductsOfOtherFormsStayApart) {
  Quantising b;
  const ValueId x = b.input({3, 32});
  const auto product = [&](ValueId weight) {
    b.output(b.work({b.mm(x, b.transpose(weight))}, {3, 6}));
  };
  product(b.dequantize(b.quantised(), b.weight({6, 4}), {6, 32}));
  product(b.dequantize(b.quantised(), b.weight({6, 2}), {6, 32}));
  product(b.dequantize(b.quantised(), b.weight({6, 4}, DType::kF16), {6, 32}));
  product(b.dequantize(b.weight({6, 32}, DType::kU8), b.weight({6, 4}), {6, 32}));
  product(b.dequantize(b.weight({6, 16}, DType::kU8), b.weight({6, 4}), {6, 32}, 4));
  product(b.dequantize(b.quantised(), b.weight({1, 4}), {6, 32}));  // of all rows
  product(b.dequantize(b.quantised(), b.weight({1, 4}), {6, 32}));
  b.run();
  EXPECT_EQ(count_of(b.graph, "tv::matmul_quantised"), 7u) << dump(b.graph);
  EXPECT_EQ(count_of(b.graph, "aten::cat"), 0u);
}

/// (q - zero point) · scale in groups of 8, as torchao's operators decompose.
ValueId in_pieces(Quantising& b, Shape scales, Shape zeros) {
  const ValueId q = b.cast(b.view(b.quantised(), {6, 4, 8}), DType::kF32);
  const ValueId zero = b.cast(b.weight(std::move(zeros), DType::kI8), DType::kF32);
  const ValueId scaled = b.binary("aten::mul.Tensor", b.binary("aten::sub.Tensor", q, zero),
                                  b.weight(std::move(scales)));
  return b.view(scaled, {6, 32});
}

TEST(MultiplyQuantised, PiecesAreRecognised) {
  Quantising b;
  b.output(b.mm(b.input({3, 32}), b.transpose(in_pieces(b, {6, 4, 1}, {6, 4, 1}))));
  const auto outcomes = b.run();
  ASSERT_TRUE(b.product()) << dump(b.graph);
  EXPECT_EQ(b.graph.value(b.product()->input("input")).shape, (Shape{6, 32}));
  EXPECT_EQ(b.graph.value(b.product()->input("scale")).shape, (Shape{6, 4}));
  EXPECT_EQ(b.graph.value(b.product()->input("zero_point")).dtype, DType::kI8);
  ASSERT_EQ(outcomes.size(), 1u);
}

TEST(MultiplyQuantised, PiecesWithOtherBlocksStay) {
  for (const auto& [scales, zeros] : {std::pair<Shape, Shape>{{6, 1, 8}, {6, 1, 8}},
                                      {{6, 4, 1}, {6, 1, 1}},
                                      {{6, 4, 8}, {6, 4, 8}}}) {
    Quantising b;
    b.output(b.mm(b.input({3, 32}), b.transpose(in_pieces(b, scales, zeros))));
    b.run();
    EXPECT_FALSE(b.product()) << dump(b.graph);
  }
}

}  // namespace
}  // namespace tv

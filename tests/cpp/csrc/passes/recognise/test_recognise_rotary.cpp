#include <gtest/gtest.h>

#include "csrc/passes/recognise/recognise_rms_norm.h"
#include "csrc/passes/recognise/recognise_rotary.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct RotaryPieces : GraphBuilder {
  ValueId op1(const std::string& op, ValueId x, Shape shape, std::vector<Arg> attrs = {}) {
    attrs.insert(attrs.begin(), tensor_arg("self", x));
    return node(op, std::move(attrs), {{graph.value(x).dtype, std::move(shape)}}).outputs[0];
  }
  ValueId op2(const std::string& op, ValueId a, ValueId b, Shape shape) {
    return op1(op, a, std::move(shape), {tensor_arg("other", b)});
  }
  const Shape shape_of(ValueId v) const { return graph.value(v).shape; }
  size_t count(const std::string& op) const {
    size_t found = 0;
    for (const Node& n : graph.nodes) found += n.op == op;
    return found;
  }

  ValueId half(ValueId x, int64_t from, int64_t to) {
    Shape shape = shape_of(x);
    shape.back() = to - from;
    return op1("aten::slice.Tensor", x, shape,
               {attr_arg("dim", Expr(-1)), attr_arg("start", Expr(from)), attr_arg("end", Expr(to)),
                attr_arg("step", Expr(1))});
  }
  ValueId rotated(ValueId x, ValueId cos, ValueId sin, bool first_negated = false) {
    const int64_t size = *shape_of(x).back().constant();
    ValueId first = half(x, 0, size / 2), second = half(x, size / 2, size);
    ValueId& negated = first_negated ? first : second;
    negated = op1("aten::neg", negated, shape_of(negated));
    const ValueId turned =
        node("aten::cat", {tensor_list_arg("tensors", {second, first}), attr_arg("dim", Expr(-1))},
             {{DType::kF32, shape_of(x)}})
            .outputs[0];
    return op2("aten::add.Tensor", op2("aten::mul.Tensor", x, cos, shape_of(x)),
               op2("aten::mul.Tensor", turned, sin, shape_of(x)), shape_of(x));
  }

  ValueId normed(ValueId x, ValueId* inverse = nullptr) {
    Shape one = shape_of(x);
    one.back() = 1;
    ValueId v = op1("aten::pow.Tensor_Scalar", x, shape_of(x), {attr_arg("exponent", Expr(2))});
    v = op1("aten::mean.dim", v, one,
            {attr_arg("dim", std::vector<Expr>{Expr(-1)}), attr_arg("keepdim", true),
             attr_arg("dtype", std::monostate{})});
    v = op1("aten::add.Scalar", v, one, {attr_arg("other", 1e-5), attr_arg("alpha", Expr(1))});
    v = op1("aten::rsqrt", v, one);
    if (inverse) *inverse = v;
    return op2("aten::mul.Tensor", x, v, shape_of(x));
  }
  void recognise() {
    graph =
        recognise_rotary(recognise_rms_norm(graph, Settings{}, DeviceProfile::builtin_default()));
    check(graph, "test");
  }
};

TEST(RecogniseRotary, QueriesAndKeysAreAPair) {
  RotaryPieces b;
  const Expr n = Expr::symbol(b.symbol("n"));
  const ValueId q = b.input({2, 4, n, 8}), k = b.input({2, 1, n, 8}), cos = b.input({2, 1, n, 8}),
                sin = b.input({2, 1, n, 8});
  const ValueId y = b.rotated(q, cos, sin), z = b.rotated(k, cos, sin);
  b.output(y);
  b.output(z);
  b.recognise();
  ASSERT_EQ(b.graph.nodes.size(), 1u) << dump(b.graph);
  const Node& pair = b.graph.nodes[0];
  EXPECT_EQ(pair.op, "tv::rotary_pair");
  EXPECT_EQ(pair.all_inputs(), (std::vector<ValueId>{q, k, cos, sin}));
  EXPECT_EQ(pair.outputs, (std::vector<ValueId>{y, z}));
}

TEST(RecogniseRotary, KeysThatComeFromTheQueriesAreNoPair) {
  RotaryPieces b;
  const ValueId q = b.input({2, 4, 3, 8}), cos = b.input({3, 8}), sin = b.input({3, 8});
  b.output(b.rotated(b.rotated(q, cos, sin), cos, sin));
  b.recognise();
  EXPECT_EQ(b.count("tv::rotary"), 2u) << dump(b.graph);
  EXPECT_EQ(b.graph.nodes.size(), 2u);
}

TEST(RecogniseRotary, APartOfARow) {
  for (const int64_t rest_from : {6, 4}) {
    RotaryPieces b;
    const ValueId q = b.input({2, 4, 3, 8 - 6 + rest_from}), cos = b.input({3, 6}),
                  sin = b.input({3, 6});
    const int64_t size = *b.shape_of(q).back().constant();
    const ValueId y = b.rotated(b.half(q, 0, 6), cos, sin);
    const ValueId rest = b.half(q, size - 2, size);
    const ValueId whole =
        b.node("aten::cat", {tensor_list_arg("tensors", {y, rest}), attr_arg("dim", Expr(-1))},
               {{DType::kF32, {2, 4, 3, 8}}})
            .outputs[0];
    b.output(whole);
    b.recognise();
    const bool fits = rest_from == 6;
    ASSERT_EQ(b.graph.nodes.size() == 1, fits) << dump(b.graph);
    if (!fits) continue;
    EXPECT_EQ(b.graph.nodes[0].all_inputs(), (std::vector<ValueId>{q, cos, sin}));
    EXPECT_EQ(b.graph.nodes[0].expr("rotated"), Expr(6));
    EXPECT_EQ(b.graph.nodes[0].outputs[0], whole);
  }
}

TEST(RecogniseRotary, NothingBehindARow) {
  RotaryPieces b;
  const ValueId q = b.input({2, 4, 3, 8}), cos = b.input({3, 8}), sin = b.input({3, 8});
  const ValueId rest = b.half(q, 8, 8), y = b.rotated(q, cos, sin);
  b.output(b.node("aten::cat", {tensor_list_arg("tensors", {y, rest}), attr_arg("dim", Expr(-1))},
                  {{DType::kF32, {2, 4, 3, 8}}})
               .outputs[0]);
  b.recognise();
  ASSERT_EQ(b.graph.nodes.size(), 1u) << dump(b.graph);
  EXPECT_EQ(b.graph.nodes[0].input("x"), q);
}

TEST(RecogniseRotary, TheOtherHalfNegatedStays) {
  RotaryPieces b;
  const ValueId q = b.input({2, 4, 3, 8}), cos = b.input({3, 8}), sin = b.input({3, 8});
  b.output(b.rotated(q, cos, sin, true));
  const size_t before = b.graph.nodes.size();
  b.recognise();
  EXPECT_EQ(b.graph.nodes.size(), before);
}

TEST(RecogniseRmsNorm, PiecesBecomeOne) {
  RotaryPieces b;
  const ValueId x = b.input({2, 3, 40});
  const ValueId y = b.normed(x);
  b.output(y);
  b.recognise();
  ASSERT_EQ(b.graph.nodes.size(), 1u) << dump(b.graph);
  EXPECT_EQ(b.graph.nodes[0].op, "aten::rms_norm");
  EXPECT_EQ(b.graph.nodes[0].number("eps"), 1e-5);
  EXPECT_EQ(b.graph.nodes[0].outputs[0], y);
}

TEST(RecogniseRmsNorm, WhatAGradientReadsStays) {
  RotaryPieces b;
  ValueId inverse = kNoValue;
  b.output(b.normed(b.input({2, 3, 40}), &inverse));
  b.output(inverse);
  b.recognise();
  EXPECT_EQ(b.count("aten::rms_norm"), 0u);
}

TEST(RecogniseRmsNorm, ANormOfSomethingElseStays) {
  RotaryPieces b;
  const ValueId x = b.input({2, 3, 40}), other = b.input({2, 3, 40});
  ValueId inverse = kNoValue;
  b.normed(x, &inverse);
  b.graph.nodes.pop_back();
  b.output(b.op2("aten::mul.Tensor", other, inverse, {2, 3, 40}));
  b.recognise();
  EXPECT_EQ(b.count("aten::rms_norm"), 0u);
}

}  // namespace
}  // namespace tv

#include <gtest/gtest.h>

#include "csrc/graph/quantised.h"
#include "csrc/passes/quantise/multiply_integers.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Integers : GraphBuilder {
  ValueId dequantize(ValueId q, Shape blocks, bool zero = false) {
    const ValueId scale = weight(blocks);
    const ValueId zeros = zero ? weight(blocks, DType::kI8) : kNoValue;
    return node("tv::dequantize", arguments_of({.input = q, .scale = scale, .zero_point = zeros}),
                {{DType::kF32, Shape(graph.value(q).shape)}})
        .outputs[0];
  }
  ValueId activation(Shape shape, Shape blocks) {
    return dequantize(input(std::move(shape), DType::kU8), std::move(blocks), true);
  }
  ValueId constant(Shape shape, Shape blocks) {
    return dequantize(weight(std::move(shape), DType::kI8), std::move(blocks));
  }
  ValueId view(const char* op, ValueId x, Shape shape, std::vector<Arg> attrs = {}) {
    std::vector<Arg> args = {tensor_arg("self", x)};
    args.insert(args.end(), attrs.begin(), attrs.end());
    return node(op, std::move(args), {{graph.value(x).dtype, std::move(shape)}}).outputs[0];
  }
  ValueId transpose(ValueId x) {
    const Shape shape = graph.value(x).shape;
    return view("aten::t", x, {shape[1], shape[0]});
  }
  ValueId product(const char* op, const char* other, ValueId a, ValueId b, Shape out) {
    return node(op, {tensor_arg("self", a), tensor_arg(other, b)}, {{DType::kF32, std::move(out)}})
        .outputs[0];
  }
  ValueId convolution(ValueId x, ValueId w, bool transposed, Shape out) {
    const std::vector<Expr> ones = {1, 1};
    return node("aten::convolution",
                {tensor_arg("input", x), tensor_arg("weight", w), tensor_arg("bias", kNoValue),
                 attr_arg("stride", ones), attr_arg("padding", ones), attr_arg("dilation", ones),
                 attr_arg("transposed", transposed),
                 attr_arg("output_padding", std::vector<Expr>{0, 0}), attr_arg("groups", Expr(1))},
                {{DType::kF32, std::move(out)}})
        .outputs[0];
  }
  IntegerReads run() {
    IntegerReads reads;
    graph = multiply_integers(graph, &reads);
    check(graph, "test");
    return reads;
  }
  const Node* integer(const char* op = "tv::matmul_integer") const {
    for (const Node& n : graph.nodes) {
      if (n.op == op) return &n;
    }
    return nullptr;
  }
};

TEST(MultiplyIntegers, ProductsOfTwoQuantisedTensors) {
  Integers b;
  const ValueId a = b.activation({3, 32}, {1, 1}), w = b.constant({6, 32}, {6, 1});
  b.output(b.product("aten::mm", "mat2", a, b.transpose(w), {3, 6}));
  const IntegerReads reads = b.run();
  ASSERT_TRUE(b.integer()) << dump(b.graph);
  EXPECT_EQ(b.graph.value(b.integer()->input("b")).shape, (Shape{6, 32}));
  EXPECT_EQ(b.graph.value(b.integer()->input("a_zero")).shape, (Shape{1, 1}));
  EXPECT_EQ(b.integer()->input("b_zero"), kNoValue);
  EXPECT_EQ(reads.reads.size(), 2u);
}

TEST(MultiplyIntegers, ScalesOfSeveralChannelsAreComputedAsFloats) {
  Integers b;
  const ValueId a = b.activation({3, 32}, {1, 1}), w = b.constant({6, 32}, {2, 1});
  b.output(b.product("aten::mm", "mat2", a, b.transpose(w), {3, 6}));
  const ValueId x = b.activation({1, 8, 4, 4}, {1, 1, 1, 1});
  b.output(b.convolution(x, b.constant({6, 8, 3, 3}, {2, 1, 1, 1}), false, {1, 6, 4, 4}));
  b.output(b.convolution(x, b.constant({8, 6, 3, 3}, {1, 2, 1, 1}), true, {1, 6, 4, 4}));
  const IntegerReads reads = b.run();
  for (const char* op :
       {"tv::matmul_integer", "tv::convolution_integer", "tv::convolution_scaled"}) {
    EXPECT_FALSE(b.integer(op)) << dump(b.graph);
  }
  for (const auto& [tensor, why] : reads.refused) {
    EXPECT_EQ(why, "the weight's scales are not those of the channels it makes") << tensor;
  }
  EXPECT_EQ(reads.refused.size(), 5u);
}

TEST(MultiplyIntegers, ViewsApplyToTheIntegers) {
  Integers b;
  const ValueId a = b.view("aten::view", b.activation({2, 5, 32}, {1, 1, 1}), {10, 32},
                           {attr_arg("size", Shape{10, 32})});
  b.output(b.product("aten::mm", "mat2", a, b.transpose(b.constant({6, 32}, {1, 1})), {10, 6}));
  b.run();
  ASSERT_TRUE(b.integer()) << dump(b.graph);
  EXPECT_EQ(b.graph.value(b.integer()->input("a")).shape, (Shape{10, 32}));
}

TEST(MultiplyIntegers, RowsWithScalesOfTheirOwnStayRows) {
  Integers b;
  const ValueId a = b.view("aten::view", b.activation({2, 5, 32}, {2, 5, 1}), {10, 32},
                           {attr_arg("size", Shape{10, 32})});
  b.output(b.product("aten::mm", "mat2", a, b.transpose(b.constant({6, 32}, {6, 1})), {10, 6}));
  b.run();
  ASSERT_TRUE(b.integer()) << dump(b.graph);
  EXPECT_EQ(b.graph.value(b.integer()->input("a_zero")).shape, (Shape{10, 1}));
}

TEST(MultiplyIntegers, BatchesOfOneScale) {
  Integers b;
  const ValueId a = b.activation({2, 3, 5, 32}, {1, 1, 1, 1});
  b.output(b.product("aten::matmul", "other", a, b.activation({2, 3, 32, 7}, {1, 1, 1, 1}),
                     {2, 3, 5, 7}));
  b.run();
  ASSERT_TRUE(b.integer()) << dump(b.graph);
  EXPECT_EQ(b.graph.value(b.integer()->input("b")).shape, (Shape{6, 7, 32}));
}

/// What stays a product of floats, and why.
void stays(Integers& b, ValueId a, ValueId w, Shape out, const std::string& why) {
  b.output(b.product("aten::mm", "mat2", a, w, std::move(out)));
  const IntegerReads reads = b.run();
  EXPECT_TRUE(reads.reads.empty());
  EXPECT_FALSE(b.integer()) << dump(b.graph);
  EXPECT_EQ(reads.refused.empty(), why.empty());
  for (const auto& [tensor, reason] : reads.refused) EXPECT_EQ(reason, why) << tensor;
}

TEST(MultiplyIntegers, FloatsStay) {
  {
    Integers b;  // one of both alone
    const ValueId w = b.transpose(b.constant({6, 32}, {6, 1}));
    stays(b, b.input({3, 32}), w, {3, 6},
          "what it is multiplied with is no tensor of 8-bit integers");
  }
  {
    Integers b;  // scales along what is summed
    const ValueId a = b.activation({3, 32}, {1, 1});
    stays(b, a, b.transpose(b.constant({6, 32}, {6, 4})), {3, 6},
          "scales change along what is summed");
  }
  {
    Integers b;  // sums that 32 bits may not hold
    const ValueId a = b.activation({3, 33026}, {1, 1});
    stays(b, a, b.transpose(b.constant({6, 33026}, {6, 1})), {3, 6},
          "32 bits need not hold its sums");
  }
  {
    Integers b;  // constants alone belong to the weight program
    const ValueId a = b.constant({3, 32}, {1, 1});
    stays(b, a, b.transpose(b.constant({6, 32}, {6, 1})), {3, 6}, "");
  }
}

/// Those that are products of integers in the model are told of, too, by what they read.
TEST(MultiplyIntegers, ProductsOfTheModelAreNoted) {
  Integers b;
  const ValueId x = b.input({3, 32}, DType::kI8), w = b.weight({32, 6}, DType::kI8);
  b.output(b.node("tv::matmul_integer",
                  {tensor_arg("a", x), tensor_arg("b", b.transpose(w)),
                   tensor_arg("a_zero", kNoValue), tensor_arg("b_zero", kNoValue)},
                  {{DType::kI32, {3, 6}}})
               .outputs[0]);
  const IntegerReads reads = b.run();
  EXPECT_EQ(reads.reads.size(), 2u);
  for (const ValueId v : {x, w}) {
    ASSERT_TRUE(reads.reads.contains(b.graph.value(v).name));
    EXPECT_EQ(reads.reads.at(b.graph.value(v).name)[0].op, "tv::matmul_integer");
  }
}

TEST(MultiplyIntegers, ConvolutionsOfImagesWithOneScale) {
  Integers b;
  b.output(b.convolution(b.activation({2, 3, 8, 8}, {1, 1, 1, 1}),
                         b.constant({6, 3, 3, 3}, {6, 1, 1, 1}), false, {2, 6, 8, 8}));
  EXPECT_EQ(b.run().reads.size(), 2u);
  ASSERT_TRUE(b.integer("tv::convolution_integer")) << dump(b.graph);
}

TEST(MultiplyIntegers, TransposedConvolutions) {
  Integers b;
  b.output(b.convolution(b.activation({2, 3, 8, 8}, {1, 1, 1, 1}),
                         b.constant({3, 6, 3, 3}, {1, 6, 1, 1}), true, {2, 6, 8, 8}));
  EXPECT_EQ(b.run().reads.size(), 2u);
  const Node* scaled = b.integer("tv::convolution_scaled");
  ASSERT_TRUE(scaled) << dump(b.graph);
  EXPECT_EQ(b.graph.value(scaled->input("scale")).shape, (Shape{6}));
}

TEST(MultiplyIntegers, OtherConvolutionsStay) {
  // Scales along what is summed: channels of the image, and of a transposed weight.
  for (const bool transposed : {false, true}) {
    Integers b;
    const Shape image = transposed ? Shape{1, 1, 1, 1} : Shape{1, 3, 1, 1};
    const Shape weight = transposed ? Shape{3, 1, 1, 1} : Shape{1, 1, 1, 1};
    b.output(b.convolution(b.activation({2, 3, 8, 8}, image), b.constant({3, 3, 3, 3}, weight),
                           transposed, {2, 3, 8, 8}));
    const IntegerReads reads = b.run();
    EXPECT_TRUE(reads.reads.empty());
    ASSERT_EQ(reads.refused.size(), 2u);
    EXPECT_EQ(reads.refused.begin()->second,
              transposed ? "the weight's scales are not those of the channels it makes"
                         : "the image has several scales");
    EXPECT_FALSE(b.integer("tv::convolution_integer")) << dump(b.graph);
    EXPECT_FALSE(b.integer("tv::convolution_scaled")) << dump(b.graph);
  }
}

}  // namespace
}  // namespace tv

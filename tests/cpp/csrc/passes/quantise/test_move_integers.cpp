#include <gtest/gtest.h>

#include "csrc/graph/quantised.h"
#include "csrc/graph/quantising.h"
#include "csrc/passes/quantise/move_integers.h"
#include "csrc/passes/quantise/quantise_early.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Moved : GraphBuilder {
  ValueId full(double number, size_t rank = 4, DType dtype = DType::kF32) {
    const Shape ones(rank, Expr(1));
    return node("aten::full",
                {attr_arg("size", ones), attr_arg("fill_value", number), attr_arg("dtype", dtype)},
                {{dtype, ones}})
        .outputs[0];
  }
  ValueId dequantize(ValueId q, ValueId scale, ValueId zero = kNoValue) {
    return node("tv::dequantize", arguments_of({.input = q, .scale = scale, .zero_point = zero}),
                {{DType::kF32, Shape(graph.value(q).shape)}})
        .outputs[0];
  }
  ValueId integers(Shape shape = {1, 4, 8, 8}) { return input(std::move(shape), DType::kU8); }
  ValueId quantize(ValueId x, double step, ValueId zero = kNoValue) {
    return node("tv::quantize",
                quantising_args({.input = x, .zero_point = zero, .step = step, .most = 255}),
                {{DType::kU8, Shape(graph.value(x).shape)}})
        .outputs[0];
  }
  ValueId pool(ValueId x, int64_t dilation = 1) {
    const auto both = [](int64_t n) { return std::vector<Expr>{n, n}; };
    return node("aten::max_pool2d",
                {tensor_arg("self", x), attr_arg("kernel_size", both(2)),
                 attr_arg("stride", both(2)), attr_arg("padding", both(1)),
                 attr_arg("dilation", both(dilation)), attr_arg("ceil_mode", false)},
                {{graph.value(x).dtype, {1, 4, 5, 5}}})
        .outputs[0];
  }
  ValueId join(ValueId a, ValueId b) {
    return node("aten::cat", {tensor_list_arg("tensors", {a, b}), attr_arg("dim", Expr(1))},
                {{DType::kF32, {1, 8, 8, 8}}})
        .outputs[0];
  }
  ValueId relu(ValueId x) {
    return node("aten::relu", {tensor_arg("self", x)}, {{DType::kF32, Shape(graph.value(x).shape)}})
        .outputs[0];
  }
  size_t count(const char* op) const {
    return static_cast<size_t>(
        std::ranges::count_if(graph.nodes, [&](const Node& n) { return n.op == op; }));
  }
  const Node* find(const char* op) const {
    const auto at = std::ranges::find_if(graph.nodes, [&](const Node& n) { return n.op == op; });
    return at == graph.nodes.end() ? nullptr : &*at;
  }
  DType read_by(const char* op) const { return graph.value(find(op)->all_inputs()[0]).dtype; }
  /// What is read as integers.
  auto move() {
    IntegerReads reads;
    graph = move_integers(graph, &reads);
    check(graph, "test");
    return reads.reads;
  }
  void quantise() {
    graph = quantise_early(graph);
    check(graph, "test");
  }
};

TEST(MoveIntegers, APoolBetweenEqualScalesIsAllThatStays) {
  Moved b;
  b.output(b.quantize(b.pool(b.dequantize(b.integers(), b.full(0.5))), 0.5));
  const auto reads = b.move();
  ASSERT_EQ(b.graph.nodes.size(), 1u) << dump(b.graph);
  EXPECT_EQ(b.read_by("aten::max_pool2d"), DType::kU8);
  ASSERT_EQ(reads.at("in0").size(), 1u);
  EXPECT_EQ(reads.at("in0")[0].op, "aten::max_pool2d");
}

TEST(MoveIntegers, OtherScalesQuantiseBehindThePool) {
  Moved b;
  b.output(b.quantize(b.pool(b.dequantize(b.integers(), b.full(0.5))), 0.25));
  b.move();
  EXPECT_EQ(b.read_by("aten::max_pool2d"), DType::kU8);
  EXPECT_EQ(b.count("tv::quantize"), 1u);
}

TEST(MoveIntegers, PoolsThatStay) {
  for (const double scale : {-0.5, 0.0}) {
    Moved b;  // the order is not kept
    b.output(b.pool(b.dequantize(b.integers(), b.full(scale))));
    EXPECT_TRUE(b.move().empty());
  }
  {
    Moved b;  // a window may be empty
    b.output(b.pool(b.dequantize(b.integers(), b.full(0.5)), 3));
    EXPECT_TRUE(b.move().empty());
  }
  {
    Moved b;  // a scale that the call brings
    b.output(b.pool(b.dequantize(b.integers(), b.input({1, 1, 1, 1}))));
    EXPECT_TRUE(b.move().empty());
  }
  {
    Moved b;  // a weight that nothing is divided by
    b.output(b.pool(b.dequantize(b.integers(), b.weight({1, 1, 1, 1}))));
    EXPECT_TRUE(b.move().empty());
  }
}

TEST(MoveIntegers, JoinsOfOneScaleAlone) {
  Moved b;
  const ValueId scale = b.full(0.5);
  b.output(b.join(b.dequantize(b.integers(), scale), b.dequantize(b.integers(), scale)));
  b.move();
  EXPECT_EQ(b.read_by("aten::cat"), DType::kU8);
  Moved other;
  const ValueId a = other.dequantize(other.integers(), other.full(0.5));
  other.output(other.join(a, other.dequantize(other.integers(), other.full(0.25))));
  EXPECT_TRUE(other.move().empty());
}

TEST(MoveIntegers, ScalesByChannelStay) {
  Moved b;
  b.output(b.relu(b.pool(b.dequantize(b.integers(), b.weight({1, 4, 1, 1})))));
  EXPECT_TRUE(b.move().empty());
}

TEST(MoveIntegers, PaddingIsTheZeroPoint) {
  const auto pad = [](Moved& b, ValueId zero, double value) {
    const ValueId x = b.dequantize(b.integers(), b.full(0.5), zero);
    b.output(b.node("aten::constant_pad_nd",
                    {tensor_arg("self", x), attr_arg("pad", std::vector<Expr>{1, 1}),
                     attr_arg("value", value)},
                    {{DType::kF32, {1, 4, 8, 10}}})
                 .outputs[0]);
  };
  Moved b;
  pad(b, b.full(7, 4, DType::kI32), 0);
  b.move();
  ASSERT_EQ(b.read_by("aten::constant_pad_nd"), DType::kU8);
  EXPECT_EQ(b.find("aten::constant_pad_nd")->number("value"), 7);
  for (const auto& [zero, value] : {std::pair{300.0, 0.0}, {7.0, 1.0}}) {
    Moved other;  // no integer, or another number
    pad(other, other.full(zero, 4, DType::kI32), value);
    EXPECT_TRUE(other.move().empty());
  }
}

TEST(MoveIntegers, PairsThatAreNoCopiesStay) {
  const auto left = [](double scale, double step, ValueId zero, bool narrow) {
    Moved b;
    const ValueId x = b.dequantize(b.integers(), b.full(scale));
    const ValueId q = b.quantize(x, step, zero == kNoValue ? zero : b.full(1));
    if (narrow) {
      for (Arg& arg : b.graph.nodes.back().args) {
        if (arg.name == "quant_max") arg.attr = Expr(127);
      }
    }
    b.output(b.op("t::work", {q}, {1, 4, 8, 8}));
    b.move();
    return b.count("tv::quantize");
  };
  EXPECT_EQ(left(0.5, 0.5, kNoValue, false), 0u);
  EXPECT_EQ(left(0.5, 0.25, kNoValue, false), 1u);
  EXPECT_EQ(left(0.5, 0.5, 1, false), 1u);
  EXPECT_EQ(left(0.5, 0.5, kNoValue, true), 1u);
  EXPECT_EQ(left(1e37, 1e37, kNoValue, false), 1u);  // products that are infinite
}

TEST(MoveIntegers, NumbersThatTheirTypeRoundsAreNone) {
  Moved b;
  EXPECT_EQ(filled_with(b.graph, b.full(0.1)), 0.1);
  EXPECT_EQ(filled_with(b.graph, b.full(3, 4, DType::kI64)), 3);
  EXPECT_EQ(filled_with(b.graph, b.full(0.1, 4, DType::kF16)), std::nullopt);
  // Its elements are not 0.1, by which the second one divides.
  b.output(b.quantize(b.dequantize(b.integers(), b.full(0.1, 4, DType::kF16)), 0.1));
  b.move();
  EXPECT_EQ(b.count("tv::quantize"), 1u);
}

TEST(QuantiseEarly, BeforeWhatMoves) {
  Moved b;
  const ValueId x = b.work({b.input({1, 4, 8, 8})}, {1, 4, 8, 8});
  const ValueId moved =
      b.node("aten::permute",
             {tensor_arg("self", x), attr_arg("dims", std::vector<Expr>{0, 2, 3, 1})},
             {{DType::kF32, {1, 8, 8, 4}}})
          .outputs[0];
  b.output(b.quantize(b.relu(moved), 0.5));
  b.quantise();
  EXPECT_EQ(b.read_by("aten::permute"), DType::kU8) << dump(b.graph);
  EXPECT_EQ(b.graph.nodes.back().op, "aten::permute");
}

TEST(QuantiseEarly, NotBeforeWhatIsReadOtherwise) {
  Moved b;
  const ValueId x = b.work({b.input({1, 4, 8, 8})}, {1, 4, 8, 8});
  b.output(b.quantize(b.join(x, b.work({x}, {1, 4, 8, 8})), 0.5));
  const size_t before = b.graph.nodes.size();
  b.quantise();
  EXPECT_EQ(b.graph.nodes.size(), before);
  Moved inputs;  // nothing would quantise them on the way
  inputs.output(
      inputs.quantize(inputs.join(inputs.input({1, 4, 8, 8}), inputs.input({1, 4, 8, 8})), 0.5));
  inputs.quantise();
  EXPECT_EQ(inputs.read_by("aten::cat"), DType::kF32);
}

TEST(QuantiseEarly, NotBeforeAPoolOfWhatMayBeNan) {
  Moved b;
  b.output(b.quantize(b.pool(b.work({b.input({1, 4, 8, 8})}, {1, 4, 8, 8})), 0.5));
  b.quantise();
  EXPECT_EQ(b.read_by("aten::max_pool2d"), DType::kF32);
  Moved integers;
  const ValueId sums = integers.op("t::work", {integers.integers()}, {1, 4, 8, 8}, DType::kI32);
  const ValueId x =
      integers.node("aten::_to_copy", {tensor_arg("self", sums)}, {{DType::kF32, {1, 4, 8, 8}}})
          .outputs[0];
  integers.output(integers.quantize(integers.pool(integers.relu(x)), 0.5));
  integers.quantise();
  EXPECT_EQ(integers.read_by("aten::max_pool2d"), DType::kU8) << dump(integers.graph);
}

}  // namespace
}  // namespace tv

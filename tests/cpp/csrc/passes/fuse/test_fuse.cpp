#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/passes/fuse/fuse.h"
#include "csrc/passes/fuse/measure_fusion.h"
#include "csrc/passes/kit/program_builder.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "csrc/passes/write/place_outputs.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphMaker;

/// Runs layouts and fusion and expects the same outputs.
Graph expect_same(const Graph& before, int seed = 1) {
  Graph after = fuse(choose_layouts(before, Settings{}, test::test_device()), test::test_device());
  check(after, "fuse");
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto leaves = test::random_leaves(before, random);
  EXPECT_EQ(test::evaluate(before, leaves), test::evaluate(after, leaves))
      << "seed " << seed << "\n"
      << dump(before) << dump(after);
  const Graph placed = place_outputs(after, Settings{}, test::test_device());
  check(placed, "place_outputs");
  EXPECT_EQ(test::evaluate(before, leaves), test::evaluate(placed, leaves))
      << "seed " << seed << "\n"
      << dump(after) << dump(placed);
  // Nothing fused is faster by these times.
  const NodesUs by_count = [](const Graph&, std::span<const size_t> nodes) {
    return nodes.size() > 1 ? 1.0 : 10.0;
  };
  const Graph apart = measure_fusion(placed, by_count, /*epilogues=*/true);
  check(apart, "measure_fusion");
  EXPECT_TRUE(std::ranges::none_of(
      apart.nodes, [](const Node& node) { return node.prologue || node.epilogue; }));
  EXPECT_EQ(test::evaluate(before, leaves), test::evaluate(apart, leaves))
      << "seed " << seed << "\n"
      << dump(placed) << dump(apart);
  return after;
}

class Fuse : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::register_test_operators(); }
  ValueId cast(ValueId value, DType dtype) {
    const ValueId made = g.pointwise("cast", {value});
    auto program = std::make_shared<PointwiseProgram>(*g.graph.nodes.back().program);
    program->instrs[0].result = dtype;
    g.graph.nodes.back().program = std::move(program);
    g.graph.value(made).dtype = dtype;
    return made;
  }

  ValueId chain(ValueId value, int length) {
    for (int i = 0; i < length; ++i) value = g.pointwise(i % 2 == 0 ? "neg" : "relu", {value});
    return value;
  }

  GraphMaker g;
};

TEST_F(Fuse, ChainBecomesOneProgram) {
  const ValueId x = g.input({3, 5}), b = g.input({5});
  g.output(g.pointwise("relu", {g.pointwise("add", {g.pointwise("neg", {x}), b})}));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].program->instrs.size(), 3u);
  EXPECT_EQ(after.nodes[0].fused_ops,
            (std::vector<std::string>{"aten::neg", "aten::add", "aten::relu"}));
}

TEST_F(Fuse, SharedInputIsReadOnce) {
  const ValueId x = g.input({3, 5});
  g.output(g.pointwise("mul", {g.pointwise("relu", {x}), x}));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].inputs("inputs").size(), 1u);
}

TEST_F(Fuse, SmallerDomainIsNotRecomputed) {
  const ValueId small = g.pointwise("relu", {g.input({3, 1})});
  g.output(g.pointwise("mul", {g.input({3, 5}), small}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 2u);
}

TEST_F(Fuse, ThroughAReshape) {
  const ValueId x = g.input({4, 6}), column = g.input({4, 1});
  const ValueId sum = g.pointwise("add", {x, column});
  g.output(g.pointwise("mul", {g.view(sum, {8, 3}), g.input({3})}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 1u);
}

TEST_F(Fuse, TwoReadersBecomeOneProgramWithTwoResults) {
  const ValueId y = g.pointwise("relu", {g.input({3, 5})});
  g.output(y);
  g.output(g.pointwise("neg", {y}));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].outputs.size(), 2u);
}

TEST_F(Fuse, SharedProducerDoesNotMovePastItsReader) {
  // row_sum reads y before the last operator does, so y can't be made there.
  const ValueId y = g.pointwise("relu", {g.input({3, 5})});
  const ValueId sums = g.op("test::row_sum", {tensor_arg("self", y)}, {3});
  g.output(g.pointwise("add", {y, g.view(sums, {3, 1})}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 3u);
}

TEST_F(Fuse, TailWithResidualAndActivation) {
  const ValueId x = g.input({3, 5}), residual = g.input({3, 5});
  const ValueId y = g.scale(x);
  g.output(g.pointwise("relu", {g.pointwise("add", {y, residual})}));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].op, "test::scale");
  EXPECT_EQ(after.nodes[0].epilogue_inputs, std::vector<ValueId>{residual});
  EXPECT_EQ(after.nodes[0].own_result_dtype, DType::kF32);
}

TEST_F(Fuse, TailThatUsesTheResultTwice) {
  const ValueId y = g.scale(g.input({3, 5}));
  g.output(g.pointwise("mul", {y, g.pointwise("relu", {y})}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 1u);
}

TEST_F(Fuse, TailOfAnotherShape) {
  const ValueId y = g.scale(g.input({6, 4}));
  const ValueId viewed = g.view(y, {2, 3, 4});
  g.output(g.pointwise("add", {viewed, g.input({3, 1})}));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.value(after.nodes[0].outputs[0]).shape, (Shape{6, 4}));
}

TEST_F(Fuse, BroadcastResultKeepsItsTailApart) {
  const ValueId sums = g.op("test::row_sum", {tensor_arg("self", g.input({3, 5}))}, {3});
  g.output(g.pointwise("mul", {g.view(sums, {3, 1}), g.input({3, 5})}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 2u);
}

TEST_F(Fuse, ResultThatIsAlsoAnOutputKeepsItsTailApart) {
  const ValueId y = g.scale(g.input({3, 5}));
  g.output(y);
  g.output(g.pointwise("relu", {y}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 2u);
}

TEST_F(Fuse, TransposedReadKeepsItsTailApart) {
  const ValueId y = g.scale(g.input({3, 5}));
  g.output(g.pointwise("relu", {g.permute(y, {1, 0})}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 2u);
}

TEST_F(Fuse, TwoAnchorsOneTail) {
  const ValueId a = g.scale(g.input({3, 5})), b = g.scale(g.input({3, 5}));
  g.output(g.pointwise("add", {a, b}));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 2u);
  EXPECT_FALSE(after.nodes[0].epilogue);
  EXPECT_TRUE(after.nodes[1].epilogue);
}

TEST_F(Fuse, HeadIsComputedWhileReading) {
  const ValueId x = g.input({3, 5}), b = g.input({5});
  g.output(g.scale(g.pointwise("add", {x, b})));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].prologue_inputs.size(), 2u);
}

TEST_F(Fuse, HeadThroughAReshapeAndTail) {
  const ValueId x = g.input({4, 6}), b = g.input({6});
  const ValueId h = g.view(g.pointwise("mul", {x, b}), {3, 8});
  g.output(g.pointwise("relu", {g.scale(h)}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 1u);
}

TEST_F(Fuse, WeightsStayInTheWeightProgram) {
  const ValueId w = g.weight({5}), v = g.weight({5});
  const ValueId folded = g.pointwise("mul", {w, v});
  g.output(g.pointwise("add", {g.input({3, 5}), g.expand(folded, {3, 5})}));
  g.output(g.pointwise("add", {g.input({5}), folded}));
  EXPECT_EQ(expect_same(g.graph).nodes.size(), 3u);
}

TEST_F(Fuse, NumbersThatReadInputsAloneAreOneProgram) {
  const ValueId a = g.input({1}), b = g.input({}), x = g.input({3, 5});
  g.output(g.pointwise("relu", {a}));
  g.output(g.pointwise("neg", {x}));
  g.output(g.pointwise("neg", {b}));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 2u) << dump(after);
  EXPECT_EQ(after.nodes[0].outputs.size(), 2u);
}

TEST_F(Fuse, ProgramsStayWithinTheirLimits) {
  ValueId sum = g.input({7});
  for (int i = 0; i < 20; ++i) sum = g.pointwise("add", {sum, g.input({7})});
  g.output(sum);
  const Graph after = expect_same(g.graph);
  EXPECT_GT(after.nodes.size(), 1u);
  EXPECT_LT(after.nodes.size(), 5u);
  for (const Node& node : after.nodes) EXPECT_LE(node.inputs("inputs").size(), 8u);
}

TEST_F(Fuse, LongChainsAreCutAtBytes) {
  constexpr int kHalf = 40;  // one fits into a program, two do not
  const ValueId bytes = cast(chain(g.input({7}), kHalf), DType::kI8);
  g.output(chain(cast(bytes, DType::kF32), kHalf));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 2u) << dump(after);
  EXPECT_EQ(after.value(after.nodes[0].outputs[0]).dtype, DType::kI8);
}

TEST_F(Fuse, EachReaderMakesFloatsOfBytes) {
  const ValueId x = g.input({3, 5}, DType::kU8);
  const ValueId floats = cast(x, DType::kF32);
  g.output(g.scale(floats));
  g.output(g.scale(g.pointwise("neg", {floats})));
  const Graph after = expect_same(g.graph);
  ASSERT_EQ(after.nodes.size(), 2u) << dump(after);
  for (const Node& node : after.nodes) {
    EXPECT_EQ(node.op, "test::scale");
    EXPECT_EQ(node.prologue_inputs, std::vector<ValueId>{x});
  }
}

TEST(ProgramBuilder, KeepsEqualInstructionsOnce) {
  PointwiseProgram add{{DType::kF32, DType::kF32},
                       {{.function = "add", .operands = {0, 1}, .scalars = {}, .integers = {}}},
                       {2}};
  ProgramBuilder b;
  const auto x = b.input(4, DType::kF32), y = b.input(9, DType::kF32);
  const auto first = b.append(add, {x, y}), second = b.append(add, {x, y});
  EXPECT_EQ(first, second);
  b.append(add, {y, y});  // nobody asks for it
  const auto built = b.build({b.append(add, {first[0], second[0]})});
  EXPECT_EQ(built.inputs, (std::vector<ValueId>{4, 9}));
  EXPECT_EQ(built.program->instrs.size(), 2u);
  EXPECT_EQ(built.program->instrs[1].operands, (std::vector<int32_t>{2, 2}));
}

TEST(ProgramBuilder, OperandsThatCommuteHaveOneOrder) {
  const auto program = [](const std::string& function, int32_t a, int32_t b) {
    const PointwiseProgram one{
        {DType::kF32, DType::kF32},
        {{.function = function, .operands = {a, b}, .scalars = {}, .integers = {}}},
        {2}};
    ProgramBuilder builder;
    const auto x = builder.input(4, DType::kF32), y = builder.input(9, DType::kF32);
    return *builder.build(builder.append(one, {x, y})).program;
  };
  EXPECT_EQ(program("add", 0, 1), program("add", 1, 0));
  EXPECT_NE(program("sub", 0, 1), program("sub", 1, 0));
}

/// Random graphs of pointwise operators, anchors and views: what they compute must not change.
TEST_F(Fuse, RandomGraphsComputeTheSame) {
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    GraphMaker m;
    std::vector<ValueId> pool = {m.input({4, 6}),    m.input({6}),     m.input({4, 1}),
                                 m.input({2, 2, 6}), m.weight({4, 6}), m.weight({1})};
    const auto pick = [&] {
      return pool[pool.size() - 1 - random() % std::min<size_t>(pool.size(), 9)];
    };
    const auto is_wide = [&](ValueId id) { return m.graph.value(id).shape == Shape{4, 6}; };
    for (int step = 0; step < 14; ++step) {
      const ValueId a = pick(), b = pick();
      const Shape shape = m.graph.value(a).shape;
      const auto rank = static_cast<int64_t>(shape.size());
      switch (random() % 9) {
        case 0:
          pool.push_back(m.pointwise("relu", {a}));
          break;
        case 1:
        case 2:
          if (is_wide(a) && (is_wide(b) || m.graph.rank(b) == 1)) {
            const bool fits = is_wide(b) || m.graph.value(b).shape[0] == Expr(6) ||
                              m.graph.value(b).shape[0] == Expr(1);
            if (fits) pool.push_back(m.pointwise(random() % 2 ? "add" : "sub", {a, b}));
          }
          break;
        case 3:
          pool.push_back(m.scale(a));
          break;
        case 4:
          if (product(shape) == Expr(24)) {
            pool.push_back(m.view(a, random() % 2 ? Shape{4, 6} : Shape{2, 2, 6}));
          }
          break;
        case 5:
          if (rank == 2) pool.push_back(m.view(m.permute(a, {1, 0}), shape));
          break;
        case 6:
          if (rank == 2 && shape[1] == Expr(6))
            pool.push_back(m.expand(m.slice(a, 0, 1, 2), {4, 6}));
          break;
        case 7:
          if (rank > 0) {
            pool.push_back(m.op("test::row_sum", {tensor_arg("self", a)},
                                Shape(shape.begin(), shape.end() - 1)));
          }
          break;
        case 8:
          if (is_wide(a)) {
            const ValueId whole = m.cat({a, b == a || is_wide(b) ? b : a}, random() % 2);
            const bool tall = m.graph.value(whole).shape[0] == Expr(8);
            pool.push_back(whole);
            pool.push_back(m.slice(whole, tall ? 0 : 1, tall ? 3 : 5, tall ? 7 : 11));
          }
          break;
      }
    }
    for (int i = 0; i < 3; ++i) m.output(pick());
    m.output(pool.back());
    expect_same(m.graph, seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tv

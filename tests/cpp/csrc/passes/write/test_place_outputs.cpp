#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/passes/layouts/choose_layouts.h"
#include "csrc/passes/write/place_outputs.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphMaker;

class PlaceOutputs : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::register_test_operators(); }

  /// Runs the pass and expects the same outputs.
  Graph expect_same() {
    const Graph before = choose_layouts(g.graph, Settings{}, test::test_device());
    Graph after = place_outputs(before, Settings{}, test::test_device());
    check(after, "place_outputs");
    std::mt19937 random(3);
    const auto leaves = test::random_leaves(before, random);
    EXPECT_EQ(test::evaluate(before, leaves), test::evaluate(after, leaves)) << dump(after);
    return after;
  }

  static int64_t count_op(const Graph& graph, const std::string& op) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [&](const Node& n) { return n.op == op; });
  }

  GraphMaker g;
};

TEST_F(PlaceOutputs, ConcatenationOfResultsVanishes) {
  const ValueId x = g.input({1, 3, 5});
  g.output(g.cat({g.scale(x), g.pointwise("relu", {x})}, 1));
  const Graph after = expect_same();
  EXPECT_EQ(count_op(after, "aten::cat"), 0);
  EXPECT_EQ(after.nodes.size(), 2u);
}

TEST_F(PlaceOutputs, SlicesMayLieApart) {
  const ValueId x = g.input({2, 3, 5});
  g.output(g.cat({g.pointwise("relu", {x}), g.pointwise("neg", {x})}, 1));
  EXPECT_EQ(count_op(expect_same(), "aten::cat"), 0);
}

TEST_F(PlaceOutputs, InputsAreCopiedIntoTheirSlice) {
  const ValueId x = g.input({1, 3, 5});
  g.output(g.cat({x, g.scale(x)}, 1));
  const Graph after = expect_same();
  EXPECT_EQ(count_op(after, "aten::cat"), 0);
  EXPECT_EQ(count_op(after, "tv::copy"), 1);
}

TEST_F(PlaceOutputs, NothingToPlaceKeepsTheConcatenation) {
  g.output(g.cat({g.input({3, 5}), g.weight({2, 5})}, 0));
  EXPECT_EQ(count_op(expect_same(), "aten::cat"), 1);
}

TEST_F(PlaceOutputs, OneResultTwice) {
  const ValueId y = g.scale(g.input({3, 5}));
  g.output(g.cat({y, y}, 0));
  const Graph after = expect_same();
  EXPECT_EQ(after.nodes.size(), 2u);
}

TEST_F(PlaceOutputs, NestedConcatenations) {
  const ValueId x = g.input({3, 5});
  const ValueId inner = g.cat({g.scale(x), g.pointwise("relu", {x})}, 0);
  const ValueId part = g.slice(inner, 0, 1, 4);
  g.output(g.cat({g.pointwise("neg", {x}), inner}, 0));
  g.output(g.pointwise("relu", {part}));
  const Graph after = expect_same();
  EXPECT_EQ(count_op(after, "aten::cat"), 0);
  EXPECT_EQ(after.nodes.size(), 4u);
}

TEST_F(PlaceOutputs, ReadersOfASliceThatNeedDenseTensors) {
  const ValueId y = g.pointwise("relu", {g.input({2, 3, 5})});
  g.output(g.cat({y, g.input({2, 1, 5})}, 1));
  g.output(g.scale(y));  // dense tensors only: y stays where it is
  EXPECT_EQ(count_op(expect_same(), "aten::cat"), 1);
}

TEST_F(PlaceOutputs, WeightsAndOutputsStayWhereTheyAre) {
  const ValueId constant = g.scale(g.weight({3, 5})), y = g.scale(g.input({3, 5}));
  g.output(y);
  g.output(g.cat({constant, y}, 0));
  EXPECT_EQ(count_op(expect_same(), "aten::cat"), 1);
}

TEST_F(PlaceOutputs, PermutedCopyIsStoredThatWay) {
  const ValueId y = g.scale(g.input({2, 3, 5, 7}));
  g.output(g.scale(g.view(g.permute(y, {0, 2, 1, 3}), {2, 5, 21})));
  const Graph after = expect_same();
  EXPECT_EQ(count_op(after, "tv::copy"), 0);
  const Value& stored = after.value(after.nodes[0].outputs[0]);
  ASSERT_TRUE(stored.view);
  EXPECT_EQ(stored.view->strides, (Shape{105, 7, 21, 1}));
}

TEST_F(PlaceOutputs, CopyOfAResultThatOthersReadStays) {
  const ValueId y = g.scale(g.input({3, 5}));
  g.output(g.scale(g.permute(y, {1, 0})));
  g.output(g.scale(y));
  EXPECT_EQ(count_op(expect_same(), "tv::copy"), 1);
}

TEST_F(PlaceOutputs, ChannelsLastOutputIsStoredThatWay) {
  g.output(g.scale(g.input({2, 3, 5, 7})), {105, 1, 21, 3});
  EXPECT_EQ(count_op(expect_same(), "tv::copy"), 0);
}

}  // namespace
}  // namespace tv

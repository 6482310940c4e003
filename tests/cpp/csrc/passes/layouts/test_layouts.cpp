#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "csrc/graph/strided.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphMaker;

Graph layouts_of(const Graph& graph) {
  Graph out = choose_layouts(graph, Settings{}, test::test_device());
  check(out, "choose_layouts");
  return out;
}

int64_t count_op(const Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& n) { return n.op == op; });
}

/// Runs the pass, expects the same outputs, each in a storage of its own with the promised strides.
Graph laid_out_the_same(const Graph& before) {
  Graph after = layouts_of(before);
  std::mt19937 random(1);
  const auto leaves = test::random_leaves(before, random);
  EXPECT_EQ(test::evaluate(before, leaves), test::evaluate(after, leaves)) << dump(after);
  std::set<ValueId> bases;
  for (size_t i = 0; i < after.outputs.size(); ++i) {
    const Value& value = after.value(after.outputs[i].value);
    const View layout = layout_of(after, after.outputs[i].value);
    EXPECT_TRUE(bases.insert(layout.base).second) << "two outputs share a storage";
    EXPECT_EQ(after.value(layout.base).kind, ValueKind::kNode);
    EXPECT_EQ(layout.offset, Expr(0));
    const Shape& promised = before.outputs[i].strides;
    EXPECT_TRUE(same_strides(value.shape, layout.strides,
                             promised.empty() ? contiguous_strides(value.shape) : promised));
  }
  return after;
}

class Layouts : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::register_test_operators(); }
  GraphMaker g;
};

TEST_F(Layouts, PointwiseReadsAnyViewWithoutACopy) {
  const ValueId x = g.input({3, 5, 7});
  const ValueId t = g.permute(g.slice(x, 1, 1, 4), {2, 0, 1});
  g.output(g.pointwise("relu", {t}));
  const Graph after = laid_out_the_same(g.graph);
  EXPECT_EQ(after.nodes.size(), 1u);
  const Value& read = after.value(after.nodes[0].inputs("inputs")[0]);
  ASSERT_TRUE(read.view);
  EXPECT_EQ(read.view->base, x);
  EXPECT_EQ(read.view->offset, Expr(7));
  EXPECT_EQ(read.view->strides, (Shape{1, 35, 7}));
}

TEST_F(Layouts, ConsumerThatNeedsDenseTensorsGetsOneCopy) {
  const ValueId t = g.permute(g.input({3, 5}), {1, 0});
  g.output(g.scale(t));
  g.output(g.op("test::row_sum", {tensor_arg("self", t)}, {5}));
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 1);
}

TEST_F(Layouts, ReadsViewsNeedsNoCopy) {
  const ValueId t = g.permute(g.input({3, 5}), {1, 0});
  g.output(g.op("test::scale_any", {tensor_arg("self", t)}, {5, 3}));
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 0);
}

TEST_F(Layouts, DenseViewsNeedNoCopy) {
  const ValueId x = g.input({4, 6});
  g.output(g.scale(g.view(x, {2, 12})));
  g.output(g.scale(g.slice(x, 0, 1, 3)));  // whole rows
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 0);
}

TEST_F(Layouts, ReshapeOfATransposeCopiesFirst) {
  const ValueId t = g.permute(g.input({4, 6}), {1, 0});
  g.output(g.pointwise("neg", {g.view(t, {8, 3})}));
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 1);
}

TEST_F(Layouts, OutputsThatAreNotTheirOwn) {
  const ValueId x = g.input({3, 5}), w = g.weight({7});
  const ValueId y = g.pointwise("relu", {x});
  g.output(x);  // an input
  g.output(w);  // a weight
  g.output(y);
  g.output(y);                     // twice
  g.output(g.permute(y, {1, 0}));  // a view of another output
  g.output(g.slice(y, 0, 1, 2));
  g.output(g.expand(w, {2, 7}));
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 6);
}

TEST_F(Layouts, PermutedStridesAreKeptWithoutACopy) {
  const ValueId y = g.scale(g.input({3, 5}));
  g.output(g.permute(y, {1, 0}), {1, 5});
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 0);
}

TEST_F(Layouts, ChannelsLastOutput) {
  const ValueId y = g.scale(g.input({2, 3, 5, 7}));
  g.output(y, {105, 1, 21, 3});
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 1);
}

TEST_F(Layouts, TransposeWithRowMajorPromise) {
  g.output(g.permute(g.scale(g.input({3, 5})), {1, 0}));
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 1);
}

TEST_F(Layouts, StridesOfDimensionsOfOneDoNotMatter) {
  const ValueId y = g.scale(g.input({1, 5, 1}));
  g.output(y, {1, 1, 5});
  EXPECT_EQ(count_op(laid_out_the_same(g.graph), "tv::copy"), 0);
}

TEST_F(Layouts, ScalarAndEmptyOutputs) {
  g.output(g.input({}));
  g.output(g.permute(g.scale(g.input({0, 3})), {1, 0}));
  laid_out_the_same(g.graph);
}

TEST_F(Layouts, SymbolicShapes) {
  g.graph.symbols = {{"n", 1, 8, 64}};
  const Expr n = Expr::symbol(0);
  const ValueId x = g.input({n, 6});
  const ValueId t = g.permute(g.view(x, {n, 2, 3}), {1, 0, 2});
  g.output(g.pointwise("relu", {t}));
  const Graph after = layouts_of(g.graph);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.value(after.nodes[0].inputs("inputs")[0]).view->strides, (Shape{3, 6, 1}));
}

TEST(Strided, CollapseMergesWhatIsWalkedAsOne) {
  Shape shape = {2, 1, 3, 5}, strides = {15, 99, 5, 1};
  collapse(shape, strides);
  EXPECT_EQ(shape, (Shape{30}));
  EXPECT_EQ(strides, (Shape{1}));
  shape = {1, 64, 7, 7}, strides = {0, 1, 0, 0};  // a bias over NCHW
  collapse(shape, strides);
  EXPECT_EQ(shape, (Shape{64, 49}));
  EXPECT_EQ(strides, (Shape{1, 0}));
  shape = {}, strides = {};
  collapse(shape, strides);
  EXPECT_TRUE(shape.empty());
}

TEST(Strided, SpanIsTight) {
  EXPECT_EQ(span_elements({3, 5}, {5, 1}, {}), Expr(15));
  EXPECT_EQ(span_elements({3, 2}, {5, 1}, {}), Expr(12));
  EXPECT_EQ(span_elements({3, 0}, {5, 1}, {}), Expr(0));
  EXPECT_EQ(span_elements({}, {}, {}), Expr(1));
  const std::vector<Symbol> symbols = {{"n", 0, 4, 8}};
  const Expr span = span_elements({Expr::symbol(0), 5}, {5, 1}, symbols);
  const std::vector<int64_t> none = {0}, three = {3};
  EXPECT_EQ(span.eval(none), 0);
  EXPECT_EQ(span.eval(three), 15);
}

TEST(Strided, DenseOrder) {
  EXPECT_EQ(dense_order({2, 3, 5, 7}, {105, 1, 21, 3}), (std::vector<int64_t>{0, 2, 3, 1}));
  EXPECT_EQ(dense_order({3, 5}, {5, 1}), (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(dense_order({3, 5}, {6, 1}).empty());
  EXPECT_TRUE(dense_order({3, 5}, {0, 1}).empty());
}

}  // namespace
}  // namespace tv

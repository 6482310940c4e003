// Branches share a barrier: the order of nodes, and the barriers of what is compiled of it.

#include <gtest/gtest.h>

#include "csrc/compile/compile.h"
#include "csrc/passes/simplify/gather_siblings.h"
#include "runtime/commands/encoder.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

class Siblings : public testing::Test {
 protected:
  ValueId product(ValueId a, ValueId b) {
    return g.node("tv::matmul", {tensor_arg("a", a), tensor_arg("b", b)}, {{DType::kF32, kShape}})
        .outputs[0];
  }
  ValueId product(ValueId a) { return product(a, g.weight(kShape)); }

  ValueId sum(ValueId a, ValueId b) {
    return g
        .node("aten::add.Tensor",
              {tensor_arg("self", a), tensor_arg("other", b), attr_arg("alpha", Expr(1))},
              {{DType::kF32, kShape}})
        .outputs[0];
  }

  static std::vector<ValueId> order(const Graph& graph) {
    std::vector<ValueId> made;
    for (const Node& node : graph.nodes) made.push_back(node.outputs[0]);
    return made;
  }

  const Shape kShape = {64, 64};
  GraphBuilder g;
};

TEST_F(Siblings, AShortcutRunsBesideTheFirstOfItsBranch) {
  const ValueId x = g.input(kShape);
  const ValueId a = product(x), b = product(a), shortcut = product(x), y = sum(b, shortcut);
  g.output(y);
  EXPECT_EQ(order(gather_siblings(g.graph)), (std::vector<ValueId>{a, shortcut, b, y}));
}

TEST_F(Siblings, WhatNeedsALaterValueStays) {
  const ValueId x = g.input(kShape);
  const ValueId a = product(x), b = product(a), late = product(x, b);
  g.output(late);
  EXPECT_EQ(order(gather_siblings(g.graph)), (std::vector<ValueId>{a, b, late}));
}

TEST_F(Siblings, WeightsComeFirstSoThatNothingWaitsForThem) {
  const ValueId x = g.input(kShape), w = g.weight(kShape);
  const ValueId a = product(x), b = product(a), folded = sum(w, w), shortcut = product(x, folded);
  g.output(b);
  g.output(shortcut);
  EXPECT_EQ(order(gather_siblings(g.graph)), (std::vector<ValueId>{folded, a, shortcut, b}));
}

/// Barriers of the engine of `graph` for a GPU, every buffer in a place of its own.
int64_t barriers_of(const Graph& graph) {
  const EngineSpec spec = compile(graph, {}, DeviceProfile::builtin_default());
  std::vector<Placement> places;
  for (size_t i = 0; i < spec.buffers.size(); ++i) places.push_back({static_cast<uint32_t>(i), 0});
  return encode({spec, spec.dispatches, {}, places, {65535, 65535, 65535}, {}}).barriers;
}

TEST_F(Siblings, IndependentBranchesShareABarrier) {
  const ValueId x = g.input(kShape), first = product(x);
  // Two branches of two products each, written one after the other, and their sum.
  const ValueId left = product(product(first)), right = product(product(first));
  g.output(sum(left, right));
  // first | left 1, right 1 | left 2 | right 2 with the sum, which reads left 2.
  EXPECT_EQ(barriers_of(g.graph), 3);
}

}  // namespace
}  // namespace tv

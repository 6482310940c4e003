#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "runtime/base/error.h"
#include "tests/cpp/kit/partition_fixture.h"

namespace tv {
namespace {

using test::Blocks;
using test::GraphBuilder;
using test::PartitionTest;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The schedule runs every node once, after all that it reads.
void expect_schedule(const Graph& graph, const Partition& p) {
  std::vector<bool> ready(graph.values.size(), false), done(graph.nodes.size(), false);
  for (const ValueId v : graph.inputs) ready[v] = true;
  for (const ValueId v : graph.weights) ready[v] = true;
  for (const PartitionStep& step : p.schedule) {
    const std::vector<int32_t> nodes =
        step.is_block ? p.blocks.at(step.index) : std::vector<int32_t>{step.index};
    for (const int32_t n : nodes) {
      EXPECT_FALSE(done[n]);
      done[n] = true;
      for (const ValueId v : graph.nodes[n].all_inputs()) EXPECT_TRUE(ready[v]) << "node " << n;
      for (const ValueId v : graph.nodes[n].outputs) ready[v] = true;
    }
  }
  EXPECT_TRUE(std::all_of(done.begin(), done.end(), [](bool d) { return d; }));
}

TEST_F(PartitionTest, WholeGraphIsOneEngine) {
  const ValueId x = b.input();
  b.output(b.work({b.op("t::view", {b.work({x, b.weight()})})}));
  const Partition p = run();
  EXPECT_EQ(p.blocks, (Blocks{{0, 1, 2}}));
  EXPECT_EQ(p.compute_nodes, 2);
  EXPECT_EQ(p.covered_nodes, 2);
  EXPECT_TRUE(p.native.empty());
  expect_schedule(b.graph, p);
}

// Views of weights come before everything, and the first engine could take them all.
TEST_F(PartitionTest, AViewGoesWithTheEngineThatReadsIt) {
  const ValueId w = b.weight();
  const ValueId first = b.work({b.work({b.input()})});
  const ValueId view = b.op("t::view", {b.op("t::view", {w})});
  b.output(b.work({b.op("t::unknown", {first}), view}));
  const Partition p = run();
  EXPECT_EQ(p.blocks, (Blocks{{0, 1}, {2, 3, 5}}));
  EXPECT_EQ(extract(b.graph, p.blocks[1]).weights, (std::vector<ValueId>{w}));
  expect_schedule(b.graph, p);
}

// No block can be given a number that a frontend made a tensor for one node.
TEST_F(PartitionTest, ANumberGoesWithItsReader) {
  const ValueId number = b.work({}, {}), other = b.work({}, {});
  const ValueId first = b.work({b.work({b.input()})});
  const ValueId unknown = b.op("t::unknown", {first, other});
  b.output(b.work({unknown, number}));
  const Partition p = run();
  EXPECT_EQ(p.blocks, (Blocks{{2, 3}, {0, 5}}));
  EXPECT_NE(reason(p, 1), "(in an engine)");
  expect_schedule(b.graph, p);
}

// A view before a change of its memory cannot move behind it.
TEST_F(PartitionTest, AViewThatOthersWaitForStaysBefore) {
  const ValueId x = b.input();
  const ValueId view = b.op("t::view", {x});
  b.op("t::unknown_", {x});
  b.output(b.work({b.op("t::unknown", {x}), view}));
  const Partition p = run();
  EXPECT_NE(reason(p, 0), "(in an engine)");
  expect_schedule(b.graph, p);
}

TEST_F(PartitionTest, EveryNativeNodeHasAReason) {
  const ValueId x = b.input();
  const ValueId first = b.work({x});
  const ValueId unknown = b.op("t::unknown", {first});
  b.output(b.work({unknown}));
  settings.min_block_size = 5;
  const Partition p = run();
  EXPECT_TRUE(p.blocks.empty());
  EXPECT_EQ(p.covered_nodes, 0);
  EXPECT_EQ(p.candidate_sizes, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(reason(p, 0), "its block has 1 compute node, fewer than min_block_size = 5");
  EXPECT_EQ(reason(p, 1), "no converter for t::unknown");
  EXPECT_EQ(p.native.size(), 3u);
  expect_schedule(b.graph, p);
}

TEST_F(PartitionTest, MinBlockSizeCountsComputeNodes) {
  const ValueId x = b.input();
  ValueId y = b.work({x});
  for (int i = 0; i < 5; ++i) y = b.op("t::view", {y});
  b.output(b.work({y}));
  settings.min_block_size = 2;
  EXPECT_EQ(run().blocks.size(), 1u);
  settings.min_block_size = 3;
  EXPECT_TRUE(run().blocks.empty());
}

TEST_F(PartitionTest, InfinityBuildsNothingButSaysWhatItWould) {
  const ValueId x = b.input();
  b.output(b.work({b.work({x})}));
  settings.min_block_size = std::numeric_limits<double>::infinity();
  const Partition p = run();
  EXPECT_TRUE(p.blocks.empty());
  EXPECT_EQ(p.candidate_sizes, (std::vector<int64_t>{2}));
  EXPECT_TRUE(contains(reason(p, 0), "infinite"));
}

TEST_F(PartitionTest, FreeNodesAloneStayNative) {
  const ValueId x = b.input();
  b.output(b.op("t::unknown", {b.op("t::view", {b.op("t::view", {x})})}));
  const Partition p = run();
  EXPECT_TRUE(p.blocks.empty());
  EXPECT_EQ(p.compute_nodes, 1);
  EXPECT_TRUE(contains(reason(p, 0), "view"));
}

TEST_F(PartitionTest, ReturnedViewOfAnInputStaysNative) {
  const ValueId x = b.input();
  const ValueId inner = b.op("t::view", {x});
  const ValueId outer = b.op("t::view", {inner});
  b.output(outer);
  b.output(b.work({inner}));
  const ValueId y = b.work({x});
  b.output(b.op("t::view", {y}));  // of a node's value: the engine's own memory
  const Partition p = run();
  EXPECT_EQ(p.blocks, (Blocks{{2, 3, 4}}));
  EXPECT_TRUE(contains(reason(p, 0), "shares the input's memory"));
  EXPECT_TRUE(contains(reason(p, 1), "shares the input's memory"));
  expect_schedule(b.graph, p);
}

TEST_F(PartitionTest, ViewsThatOnlyNativeNodesReadStayNative) {
  const ValueId x = b.input();
  const ValueId y = b.work({x});
  const ValueId v = b.op("t::view", {b.op("t::view", {y})});
  b.output(b.op("t::unknown", {v}));
  b.output(y);
  const Partition p = run();
  EXPECT_EQ(p.blocks, (Blocks{{0}}));
  EXPECT_TRUE(contains(reason(p, 1), "nothing in its engine reads"));
}

// A frontend that runs all of what a node is part of, or nothing, has no view of it.
TEST_F(PartitionTest, AViewStaysWithTheRestOfItsWhole) {
  const ValueId sum = b.work({b.input()});
  b.output(b.op("t::unknown", {b.op("t::view", {sum})}));
  for (const size_t n : {0, 1}) {
    b.graph.nodes[n].origin.index = 7;
    b.graph.nodes[n].origin.whole = true;
  }
  EXPECT_EQ(run().blocks, (Blocks{{0, 1}}));
  b.graph.nodes[1].origin.index = 8;  // a whole of its own
  EXPECT_EQ(run().blocks, (Blocks{{0}}));
}

TEST_F(PartitionTest, SmallIntegerArithmeticForNativeNodesStaysNative) {
  const ValueId x = b.input({64}, DType::kI32);
  const ValueId size = b.op("t::work", {x}, {2}, DType::kI32);
  const ValueId twice = b.op("t::work", {size}, {2}, DType::kI32);
  const ValueId large = b.op("t::work", {x}, {64}, DType::kI32);
  b.output(b.op("t::unknown", {twice, large}));
  const Partition p = run();
  EXPECT_EQ(p.blocks, (Blocks{{2}}));
  EXPECT_TRUE(contains(reason(p, 0), "small integer"));
  EXPECT_TRUE(contains(reason(p, 1), "small integer"));
}

TEST_F(PartitionTest, RequireFullCompilationListsWhatIsInTheWayAlone) {
  const ValueId x = b.input();
  b.output(b.op("t::unknown", {b.work({b.op("t::view", {x})})}));
  settings = {.min_block_size = 5, .require_full_compilation = true};
  const Partition p = run();
  EXPECT_EQ(p.compute_nodes, 2);
  EXPECT_EQ(p.covered_nodes, 1);
  EXPECT_EQ(reason(p, 2), "no converter for t::unknown");
}

TEST_F(PartitionTest, RequireFullCompilationTakesBlocksOfAnySize) {
  b.output(b.work({b.input()}));
  for (const double size : {5.0, std::numeric_limits<double>::infinity()}) {
    settings = {.min_block_size = size, .require_full_compilation = true};
    EXPECT_EQ(run().blocks.size(), 1u);
  }
}

TEST_F(PartitionTest, MutationKeepsItsPlace) {
  // copy_ writes x after both engines' nodes read it; the late reader must not move before it.
  const ValueId x = b.input(), other = b.input();
  const ValueId early = b.work({x});
  b.op("t::unknown_", {x, early});
  const ValueId late = b.work({x, other});
  b.output(late);
  b.output(early);
  const Partition p = run();
  EXPECT_EQ(p.blocks.size(), 2u);
  ASSERT_EQ(p.schedule.size(), 3u);
  EXPECT_EQ(p.schedule[1].index, 1);
  EXPECT_FALSE(p.schedule[1].is_block);
}

TEST_F(PartitionTest, MutationOfAViewCountsForItsBase) {
  const ValueId x = b.input();
  const ValueId view = b.op("t::view", {x});
  b.op("t::unknown_", {view});
  b.output(b.work({b.work({x})}));
  b.output(view);
  const Partition p = run();
  ASSERT_FALSE(p.schedule.empty());
  EXPECT_TRUE(p.schedule.back().is_block) << "the engine reads what was written";
}

TEST_F(PartitionTest, RandomNumbersKeepTheirOrder) {
  const ValueId x = b.input();
  const ValueId a = b.work({x});
  const ValueId r1 = random({a});
  const ValueId r2 = random({x});
  b.output(b.work({r2, a}));  // would pull the engine between r2 and r1
  b.output(r1);
  const Partition p = run();
  expect_schedule(b.graph, p);
  std::vector<int32_t> order;
  for (const PartitionStep& s : p.schedule) {
    if (!s.is_block) order.push_back(s.index);
  }
  EXPECT_EQ(order, (std::vector<int32_t>{1, 2}));
}

TEST_F(PartitionTest, WhatTheUserOrTheFrontendKeepsNativeHasThatReason) {
  const ValueId x = b.input();
  const ValueId listed = b.work({refused("t::work", {x})});
  b.graph.nodes.back().origin.op = "model::conv.out";
  b.output(b.op("aten::relu", {listed}));
  settings.torch_executed_ops = {"model::conv"};
  const Partition p = run();
  EXPECT_EQ(reason(p, 0), "the frontend's reason");
  EXPECT_EQ(reason(p, 1), "torch_executed_ops lists model::conv");
  EXPECT_EQ(p.blocks, (Blocks{{2}}));
  EXPECT_TRUE(p.native[0].refused && p.native[1].refused);
  b.graph.nodes[1].origin.effect = true;
  EXPECT_EQ(reason(run(), 1), "(in an engine)") << "an effect is the frontend's to refuse";
}

TEST_F(PartitionTest, ANodeWaitsForWhatItDoesNotRead) {
  const ValueId x = b.input();
  const ValueId first = b.work({x});
  const ValueId native = b.op("t::unknown", {first});
  b.output(b.work({x}));
  EXPECT_EQ(run().blocks, (Blocks{{0, 2}}));
  b.graph.nodes.back().origin.after = {native};
  b.output(native);
  const Partition p = run();
  ASSERT_EQ(p.blocks.size(), 2U);
  const Block block = extract(b.graph, p.blocks[1]);
  EXPECT_EQ(block.inputs, (std::vector<ValueId>{x})) << "it does not read what it waits for";
}

TEST_F(PartitionTest, WhatAnImporterRefusedIsOnlyOrderedByData) {
  const ValueId x = b.input();
  const ValueId a = b.work({x});
  b.output(refused("lib::one", {a}));
  b.output(b.work({refused("lib::two", {x}), a}));
  EXPECT_EQ(run().blocks, (Blocks{{0, 3}}));
}

TEST_F(PartitionTest, DataDependentSizes) {
  // nonzero-like: its output's size s0 is bound by that output once it enters an engine, but a node
  // that makes a tensor of s0 elements from nothing cannot learn it.
  const Expr count = Expr::symbol(b.symbol("count"));
  const ValueId x = b.input({4});
  const ValueId found = b.op("t::nonzero", {x}, {count, 1});
  b.output(b.work({found}, {count, 2}));
  b.output(b.op("t::work", {x}, {count * count}));
  const Partition p = run();
  EXPECT_EQ(p.blocks.size(), 1u) << "together, the other node's input determines the size";
  check(extract(b.graph, p.blocks[0]).graph, "extract");

  GraphBuilder alone;
  const Expr lost = Expr::symbol(alone.symbol("lost"));
  const ValueId y = alone.input({4});
  alone.output(alone.work({y}));
  alone.output(alone.op("t::work", {y}, {lost}));
  b = alone;
  const Partition q = run();
  EXPECT_EQ(q.blocks, (Blocks{{0}}));
  EXPECT_TRUE(contains(reason(q, 1), "size lost is not determined")) << reason(q, 1);
}

TEST_F(PartitionTest, ExtractAddsAnInputThatDeterminesASymbol) {
  const Expr n = Expr::symbol(b.symbol("unused")), m = Expr::symbol(b.symbol("m"));
  const ValueId a = b.input({n}), c = b.input({Expr(2) * m + Expr(1)}), d = b.input({m, m});
  (void)a, (void)d;
  b.output(b.op("t::work", {}, {m}));
  const Partition p = run();
  ASSERT_EQ(p.blocks.size(), 1u);
  const Block block = extract(b.graph, p.blocks[0]);
  EXPECT_EQ(block.inputs, (std::vector<ValueId>{c}));
  ASSERT_EQ(block.graph.symbols.size(), 1u) << "symbols are compact";
  EXPECT_EQ(block.graph.symbols[0].name, "m");
  EXPECT_EQ(block.graph.value(block.graph.inputs[0]).shape[0], Expr(2) * Expr::symbol(0) + Expr(1));
}

TEST_F(PartitionTest, ExtractNumbersByFirstUse) {
  const ValueId x = b.input(), w0 = b.weight(), w1 = b.weight({4}, DType::kF16);
  const ValueId native = b.op("t::unknown", {x});
  const ValueId y = b.work({native, w1});
  const ValueId z = b.work({y, w0, x, w1});
  b.output(z, {7});
  b.output(y);
  b.output(z);
  const Partition p = run();
  ASSERT_EQ(p.blocks, (Blocks{{1, 2}}));
  const Block block = extract(b.graph, p.blocks[0]);
  EXPECT_EQ(block.inputs, (std::vector<ValueId>{native, x}));
  EXPECT_EQ(block.weights, (std::vector<ValueId>{w1, w0}));
  EXPECT_EQ(block.outputs, (std::vector<ValueId>{y, z}));
  EXPECT_EQ(block.graph.outputs[1].strides, (Shape{7}));
  EXPECT_TRUE(block.graph.outputs[0].strides.empty());
  EXPECT_EQ(block.graph.value(block.graph.weights[0]).dtype, DType::kF16);
  EXPECT_EQ(block.graph.value(block.graph.inputs[0]).kind, ValueKind::kInput);
}

TEST_F(PartitionTest, ExtractGivesTheOutputsThatTheBorderNames) {
  const Expr n = Expr::symbol(b.symbol("n")), lost = Expr::symbol(b.symbol("lost"));
  const ValueId x = b.input({n}), lines = b.input({lost});
  (void)lines;
  const ValueId y = b.work({x}, {n});
  const ValueId z = b.work({y}, {lost});
  b.output(y);
  const Border border{.outputs = {{{z, "the last", {1}}}}, .binds_symbols = false};
  const Block block = extract(b.graph, {0, 1}, border);
  EXPECT_EQ(block.inputs, (std::vector<ValueId>{x})) << "none is added for the size `lost`";
  EXPECT_EQ(block.outputs, (std::vector<ValueId>{z}));
  ASSERT_EQ(block.graph.outputs.size(), 1U);
  EXPECT_EQ(block.graph.outputs[0].name, "the last");
  EXPECT_EQ(block.graph.outputs[0].strides, (Shape{1}));
  EXPECT_EQ(block.graph.nodes[1].outputs[0], block.graph.outputs[0].value);
  EXPECT_EQ(block.graph.symbols.size(), 2U);
}

TEST_F(PartitionTest, ExtractHasTheInputsAndRangesThatTheBorderNames) {
  const Expr n = Expr::symbol(b.symbol("n"));
  const ValueId x = b.input({n}), unread = b.input({n}), w0 = b.weight(), w1 = b.weight();
  const ValueId y = b.work({x, w0, w1}, {n});
  const std::vector<Symbol> symbols = {{"n", 3, 4, 5}, {"m", 1, 2, 9}};
  const Border border{.outputs = {{{y, "y", {Expr::symbol(1)}}, {y, "written", {}, unread}}},
                      .inputs = {unread, w1, x},
                      .symbols = symbols,
                      .binds_symbols = false};
  const Block block = extract(b.graph, {0}, border);
  EXPECT_EQ(block.inputs, (std::vector<ValueId>{unread, x}));
  EXPECT_EQ(block.weights, (std::vector<ValueId>{w1, w0}));
  EXPECT_EQ(block.graph.symbols, symbols);
  EXPECT_EQ(block.graph.outputs[0].strides, (Shape{Expr::symbol(1)}));
  EXPECT_EQ(block.graph.outputs[1].over, block.graph.inputs[0]);
}

TEST_F(PartitionTest, DemandsOfNodesAreConditionsOfTheirBlocks) {
  const Expr n = Expr::symbol(b.symbol("n"));
  const ValueId x = b.input({n});
  const ValueId y = b.work({x}, {n});
  b.output(b.work({y}, {n}));
  const auto at_least = [&](int64_t low) {
    return Condition{Relation::kAtLeast, n, Expr(low), "a node"};
  };
  b.graph.nodes[0].origin.demands = {at_least(7)};
  b.graph.nodes[1].origin.demands = {at_least(9), at_least(0)};
  EXPECT_EQ(extract(b.graph, {0}).graph.conditions, (std::vector{at_least(7)}));
  EXPECT_EQ(extract(b.graph, {1}).graph.conditions, (std::vector{at_least(9)}))
      << "all sizes are at least 0";
  EXPECT_EQ(extract(b.graph, {0, 1}).graph.conditions.size(), 2U);
}

TEST_F(PartitionTest, RenamingChangesNothingButNames) {
  const Expr batch = Expr::symbol(b.symbol("batch"));
  const ValueId x = b.input({batch});
  b.output(b.work({b.op("t::unknown", {b.work({x, b.weight()}, {batch})}, {batch})}, {batch}));
  const Partition before = run();
  Graph first = extract(b.graph, before.blocks[0]).graph;
  for (Node& n : b.graph.nodes) n.name = "renamed_" + n.name;
  for (Value& v : b.graph.values) v.name = "renamed_" + v.name;
  const Partition after = run();
  EXPECT_EQ(before.blocks, after.blocks);
  Graph second = extract(b.graph, after.blocks[0]).graph;
  for (Graph* g : {&first, &second}) {
    for (Node& n : g->nodes) n.name.clear();
    for (Value& v : g->values) v.name.clear();
    for (GraphOutput& o : g->outputs) o.name.clear();
  }
  EXPECT_EQ(dump(first), dump(second));
}

TEST_F(PartitionTest, TruncationAdmitsDoubles) {
  const ValueId x = b.input({4}, DType::kF64);
  b.output(b.op("t::work", {x}, {4}, DType::kF64));
  EXPECT_TRUE(run().blocks.empty());
  settings.truncate_long_and_double = true;
  EXPECT_EQ(run().blocks.size(), 1u);
}

TEST_F(PartitionTest, RandomGraphs) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    b = GraphBuilder();
    const Expr n = Expr::symbol(b.symbol("n"));
    std::vector<ValueId> values = {b.input({n}), b.input({4}), b.weight()};
    const std::vector<const char*> ops = {"t::work",    "t::work",       "t::work",    "t::view",
                                          "t::unknown", "aten::random_", "t::unknown_"};
    const int count = 1 + static_cast<int>(random() % 40);
    for (int i = 0; i < count; ++i) {
      std::vector<ValueId> inputs;
      for (size_t k = 0; k < 1 + random() % 3; ++k)
        inputs.push_back(values[random() % values.size()]);
      values.push_back(
          b.op(ops[random() % ops.size()], inputs, random() % 2 ? Shape{n} : Shape{4}));
      if (random() % 4 == 0) b.output(values.back());
    }
    b.output(values.back());
    settings.min_block_size = 1 + static_cast<double>(random() % 4);
    const Partition p = run();
    expect_schedule(b.graph, p);
    int64_t covered = 0;
    std::vector<int> seen(b.graph.nodes.size(), 0);
    for (const auto& block : p.blocks) {
      int64_t size = 0;
      for (const int32_t node : block) size += b.graph.nodes[node].op == "t::work", ++seen[node];
      EXPECT_GE(static_cast<double>(size), settings.min_block_size);
      covered += size;
      check(extract(b.graph, block).graph, "extract");
    }
    for (const NativeNode& native : p.native) {
      ++seen[native.node];
      EXPECT_FALSE(native.reason.empty());
    }
    EXPECT_EQ(covered, p.covered_nodes);
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << "each node once, trial " << trial;
  }
}

}  // namespace
}  // namespace tv

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/builder.h"
#include "csrc/converter.h"
#include "csrc/lowering/buffers.h"
#include "csrc/lowering/constant_steps.h"
#include "csrc/lowering/requests.h"
#include "csrc/lowering/tactics.h"
#include "csrc/passes/fuse/fuse.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphMaker;

Graph prepared(const Graph& graph) {
  return fuse(choose_layouts(graph, Settings{}, test::test_device()), test::test_device());
}

Step copy_step(const Node& node) {
  return {.kernel = "copy",
          .operands = {src("src", node.input("self")), dst("dst", node.outputs[0])}};
}

class LoweringTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::register_test_operators(); }

  /// Requests of each node of the graph as its own copy step, and which of them are constant.
  std::vector<bool> constant_nodes(const Graph& graph) {
    ValueTable table(graph);
    EngineSpec spec;
    BufferTable buffers(table, spec);
    std::vector<bool> result;
    for (const Node& node : graph.nodes) {
      const std::vector<StepRequest> steps = {make_request(node, step_of(node), table)};
      result.push_back(mark_constant_steps(steps, table, buffers.is_output()).at(0));
    }
    return result;
  }

  static Step step_of(const Node& node) {
    Step step{.kernel = "any"};
    for (ValueId id : node.all_inputs()) step.operands.push_back(src("in", id));
    for (ValueId id : node.outputs) step.operands.push_back(dst("out", id));
    return step;
  }

  GraphMaker g;
};

TEST_F(LoweringTest, FirstTacticWithoutARefusal) {
  const Node node{.op = "aten::relu", .name = "relu"};
  EXPECT_EQ(choose_tactic(node, {{"a", "no", {}}, {"b", "", {}}, {"c", "", {}}}, {}), 1u);
  EXPECT_EQ(
      choose_tactic(node, {{"a", "no", {}}, {"b", "", {}}, {"c", "", {}}}, {.tactics = {"a", "c"}}),
      2u);
  try {
    choose_tactic(node, {{"fast", "needs matrix units", {}}, {"plain", "needs memory", {}}}, {});
    FAIL() << "no tactic applies";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInternal);
    EXPECT_STREQ(
        e.what(),
        "[aten::relu] no tactic applies\n  fast: needs matrix units\n  plain: needs memory");
  }
}

TEST_F(LoweringTest, Vec4NeedsDenseAlignedStorage) {
  const ValueId x = g.input({8, 12});
  const ValueId rows = g.slice(x, 0, 1, 3), odd = g.slice(x, 1, 1, 12);
  const ValueId later = g.view(g.slice(g.view(x, {96}), 0, 2, 98), {94});
  for (ValueId id : {rows, odd, later}) g.output(g.pointwise("relu", {id}));
  const Graph graph = choose_layouts(g.graph, Settings{}, test::test_device());
  const ValueTable table(graph);
  EXPECT_TRUE(is_vec4_aligned(table, x));
  EXPECT_TRUE(is_vec4_aligned(table, rows));    // from byte 48
  EXPECT_FALSE(is_vec4_aligned(table, odd));    // rows lie apart
  EXPECT_FALSE(is_vec4_aligned(table, later));  // from byte 8
}

TEST_F(LoweringTest, WorkspaceSizeRefusesTactics) {
  static const RegisterConverter hungry{{
      .op = "test::hungry",
      .convert =
          [](const NodeContext& c, Builder& b) {
            const ValueId scratch = b.scratch("sums", DType::kF32, {1000});
            Step fill = copy_step(c.node), finish = copy_step(c.node);
            fill.operands[1].value = finish.operands[0].value = scratch;
            b.emit({{"hungry", "", {fill, finish}}, {"frugal", "", {copy_step(c.node)}}});
          },
  }};
  g.output(g.op("test::hungry", {tensor_arg("self", g.input({4}))}, {4}));
  const auto chosen = [&](int64_t workspace) {
    ValueTable table(g.graph);
    Settings settings;
    settings.workspace_size = workspace;
    return convert_node(g.graph.nodes[0], table, test::test_device(), settings);
  };
  EXPECT_EQ(chosen(0).chosen, 0u);
  EXPECT_EQ(chosen(4000).chosen, 0u);
  EXPECT_EQ(chosen(3999).chosen, 1u);
  EXPECT_EQ(chosen(3999).candidates[0].refusal,
            "needs 4000 bytes of scratch, workspace_size is 3999");
}

TEST_F(LoweringTest, MatrixUnitsMayBeLeftOut) {
  static const RegisterConverter units{{
      .op = "test::units",
      .convert =
          [](const NodeContext& c, Builder& b) {
            Step step = copy_step(c.node);
            step.matrix = CooperativeMatrix{};
            b.emit({{"units", "", {step}}, {"plain", "", {copy_step(c.node)}}});
          },
  }};
  g.output(g.op("test::units", {tensor_arg("self", g.input({4}))}, {4}));
  for (const bool wanted : {true, false}) {  // Shows setting: matrix_units
    ValueTable table(g.graph);
    Settings settings;
    settings.matrix_units = wanted;
    const auto tactics = convert_node(g.graph.nodes[0], table, test::test_device(), settings);
    EXPECT_EQ(tactics.candidates[0].refusal == "matrix_units is False", !wanted);
    EXPECT_EQ(tactics.candidates[1].refusal, "");
  }
}

TEST_F(LoweringTest, WhatKernelsCannotCountRefusesTactics) {
  static const RegisterConverter large{{
      .op = "test::large",
      .convert =
          [](const NodeContext& c, Builder& b) {
            Step fill = copy_step(c.node), finish = copy_step(c.node), wide = copy_step(c.node);
            const Expr n = c.shape("self")[0];
            fill.operands[1].value = finish.operands[0].value =
                b.scratch("sums", DType::kF32, {n, 1 << 16});
            wide.grid = {{1, 1, n * 2}};
            b.emit({{"roomy", "", {fill, finish}},
                    {"wide", "", {wide}},
                    {"plain", "", {copy_step(c.node)}}});
          },
  }};
  g.output(g.op("test::large", {tensor_arg("self", g.input({4}))}, {4}));
  const auto offered = [&](int64_t n) {
    Graph graph = g.graph;
    graph.values[static_cast<size_t>(graph.inputs[0])].shape = {n};
    graph.values[static_cast<size_t>(graph.nodes[0].outputs[0])].shape = {n};
    ValueTable table(graph);
    DeviceProfile device = test::test_device();
    device.max_grid[2] = 65535;
    return convert_node(graph.nodes[0], table, device, Settings{}).candidates;
  };
  EXPECT_EQ(offered(1 << 14)[0].refusal + offered(1 << 14)[1].refusal, "");
  EXPECT_EQ(offered((1 << 15) - 1)[0].refusal, "");
  EXPECT_EQ(offered(1 << 15)[0].refusal,
            "its scratch '" + g.graph.nodes[0].name +
                ".sums' would have 2^31 elements or more; kernels count fewer");
  EXPECT_EQ(offered(1 << 15)[1].refusal, "");
  EXPECT_NE(offered(1 << 22)[1].refusal.find("may launch 8388608 workgroups in one dimension"),
            std::string::npos);
  EXPECT_EQ(offered(1 << 22)[2].refusal, "");
  EXPECT_EQ(offered((1 << 15) - 1)[1].steps.size(), 1u);
  const std::vector<Step> parts = offered(1 << 15)[1].steps;
  ASSERT_EQ(parts.size(), 2u);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].grid.groups[2], Expr(i == 0 ? 65535 : 1));
    const auto first = std::ranges::find(parts[i].params, "tv_first_z", &Param::name);
    ASSERT_NE(first, parts[i].params.end());
    EXPECT_EQ(std::get<Expr>(first->value), Expr(i == 0 ? 0 : 65535));
  }
}

TEST_F(LoweringTest, PointwiseInputsBroadcastAndCollapse) {
  const ValueId x = g.input({2, 3, 5, 7}), bias = g.input({3, 1, 1});
  g.output(g.pointwise("add", {x, bias}));
  const Graph graph = prepared(g.graph);
  const ValueTable table(graph);
  const StepRequest request = make_request(graph.nodes[0], step_of(graph.nodes[0]), table);
  const auto& operands = request.kernel.operands;
  ASSERT_EQ(operands.size(), 3u);
  EXPECT_EQ(operands[0].shape, (Shape{210}));
  EXPECT_EQ(operands[0].strides, (Shape{1}));
  EXPECT_EQ(operands[1].shape, (Shape{2, 3, 35}));
  EXPECT_EQ(operands[1].strides, (Shape{0, 1, 0}));
  EXPECT_EQ(operands[1].storage_elements, Expr(3));
  EXPECT_TRUE(operands[2].write);
  EXPECT_EQ(request.kernel.program, graph.nodes[0].program);
}

TEST_F(LoweringTest, TailBringsItsOperands) {
  const ValueId x = g.input({3, 5}), residual = g.permute(g.input({5, 3}), {1, 0});
  g.output(g.pointwise("relu", {g.pointwise("add", {g.scale(x), residual})}));
  const Graph graph = prepared(g.graph);
  ASSERT_EQ(graph.nodes.size(), 1u);
  const ValueTable table(graph);
  const StepRequest request = make_request(graph.nodes[0], copy_step(graph.nodes[0]), table);
  const auto& operands = request.kernel.operands;
  ASSERT_EQ(operands.size(), 3u);
  EXPECT_EQ(operands[0].program, nullptr);
  EXPECT_EQ(operands[1].program, graph.nodes[0].epilogue);
  EXPECT_EQ(operands[1].program_inputs, std::vector<uint32_t>{2});
  EXPECT_EQ(operands[2].name, "dst_in0");
  EXPECT_EQ(operands[2].strides, (Shape{1, 3}));
  EXPECT_EQ(table.layout(request.values[2]).base, graph.inputs[1]);
}

TEST_F(LoweringTest, PlainOperandsHaveNoTail) {
  g.output(g.pointwise("relu", {g.scale(g.input({3, 5}))}));
  const Graph graph = prepared(g.graph);
  const ValueTable table(graph);
  Step step = copy_step(graph.nodes[0]);
  step.operands[1].plain = true;
  EXPECT_EQ(make_request(graph.nodes[0], step, table).kernel.operands.at(1).program, nullptr);
}

TEST_F(LoweringTest, HeadReplacesStorage) {
  const ValueId x = g.input({3, 5}), y = g.input({5});
  g.output(g.scale(g.pointwise("mul", {x, y})));
  const Graph graph = prepared(g.graph);
  ASSERT_EQ(graph.nodes.size(), 1u);
  const ValueTable table(graph);
  const StepRequest request = make_request(graph.nodes[0], copy_step(graph.nodes[0]), table);
  EXPECT_FALSE(request.kernel.operands[0].stored);
  EXPECT_EQ(request.values[0], kNoValue);
  EXPECT_EQ(request.kernel.operands[0].program_inputs, (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(request.values[2], x);
  EXPECT_EQ(request.kernel.operands[3].strides, (Shape{0, 1}));
}

TEST_F(LoweringTest, RangesAreAsTightAsTheView) {
  const ValueId x = g.input({8, 6});
  g.output(g.pointwise("relu", {g.slice(g.slice(x, 0, 2, 5), 1, 1, 4)}));
  const Graph graph = prepared(g.graph);
  const ValueTable table(graph);
  EngineSpec spec;
  BufferTable buffers(table, spec);
  const StepRequest request = make_request(graph.nodes[0], step_of(graph.nodes[0]), table);
  const OperandRange range =
      buffers.range_of(request.values[0], request.kernel.operands[0].storage_elements);
  EXPECT_EQ(range.offset_bytes, Expr((2 * 6 + 1) * 4));
  EXPECT_EQ(range.size_bytes, Expr((2 * 6 + 3) * 4));
  EXPECT_EQ(spec.buffers[range.buffer].kind, BufferKind::kInput);
  EXPECT_EQ(spec.buffers[range.buffer].size_bytes, Expr(192));
  const OperandRange out = buffers.range_of(request.values[1], 9);
  EXPECT_EQ(spec.buffers[out.buffer].kind, BufferKind::kOutput);
}

TEST_F(LoweringTest, OutputBindingsHaveThePromisedStrides) {
  const ValueId y = g.scale(g.input({2, 3, 5, 7}));
  g.output(y, {105, 1, 21, 3});
  const Graph graph = prepared(g.graph);
  const ValueTable table(graph);
  EngineSpec spec;
  const BufferTable buffers(table, spec);
  ASSERT_EQ(spec.outputs.size(), 1u);
  EXPECT_EQ(spec.outputs[0].shape, (Shape{2, 3, 5, 7}));
  EXPECT_EQ(spec.outputs[0].strides, (Shape{105, 1, 21, 3}));
}

TEST_F(LoweringTest, WhatDependsOnWeightsAloneIsConstant) {
  const ValueId w = g.weight({3, 5}), x = g.input({3, 5});
  const ValueId packed = g.scale(g.pointwise("neg", {g.permute(w, {1, 0})}));
  const ValueId y = g.scale(x);
  g.output(g.pointwise("add", {y, g.permute(packed, {1, 0})}));
  g.output(g.pointwise("relu", {packed}));  // the caller wants it each call
  const Graph graph = choose_layouts(g.graph, Settings{}, test::test_device());
  // neg, scale (weights), scale (input), add, relu
  EXPECT_EQ(constant_nodes(graph), (std::vector<bool>{true, true, false, false, false}));
}

TEST_F(LoweringTest, AStepThatSharesItsResultWithACallIsNotConstant) {
  // Step 1 clears a scratch, step 2 adds an input into it: clearing has to happen each call.
  g.output(g.scale(g.input({4})));
  const Graph graph = prepared(g.graph);
  const Node& node = graph.nodes[0];
  for (const bool add_input : {true, false}) {
    ValueTable table(graph);
    EngineSpec spec;
    const BufferTable buffers(table, spec);
    const ValueId scratch = table.add_scratch("sums", DType::kF32, {4});
    Step clear{.kernel = "clear", .operands = {dst("sums", scratch)}};
    Step add{.kernel = "add", .operands = {src("sums", scratch)}};
    add.operands[0].read_write = true;
    if (add_input) add.operands.push_back(src("x", graph.inputs[0]));
    const std::vector<StepRequest> steps = {make_request(node, clear, table),
                                            make_request(node, add, table)};
    const auto constant = mark_constant_steps(steps, table, buffers.is_output());
    EXPECT_EQ(constant, std::vector<bool>(2, !add_input));
    EXPECT_EQ(table.is_constant(scratch), !add_input);
  }
}

TEST_F(LoweringTest, SymbolsAreNotConstant) {
  g.graph.symbols = {{"n", 1, 8, 64}};
  const ValueId w = g.weight({1, 5});
  g.input({Expr::symbol(0), 5});
  const ValueId expanded = g.expand(w, {Expr::symbol(0), 5});
  g.output(g.pointwise("relu", {g.scale(expanded)}));
  const Graph graph = choose_layouts(g.graph, Settings{}, test::test_device());
  for (const bool constant : constant_nodes(graph)) EXPECT_FALSE(constant);
}

}  // namespace
}  // namespace tv

// What frontends get of the compiler: blocks and reasons, and the engine of a block.

#include <gtest/gtest.h>

#include "csrc/compile/compile.h"
#include "csrc/plan/plan.h"
#include "runtime/spec/vke.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

const DeviceProfile& device() { return DeviceProfile::builtin_default(); }

/// relu(relu(x)), a node that no engine takes, relu of that.
test::GraphBuilder broken_in_two() {
  test::GraphBuilder b;
  const auto relu = [&b](ValueId v) {
    b.node("aten::relu", {tensor_arg("self", v)}, {{DType::kF32, {4}}});
    b.graph.nodes.back().origin.index = 10 * static_cast<int32_t>(b.graph.nodes.size());
    return b.graph.nodes.back().outputs[0];
  };
  const ValueId unread = b.input();
  (void)unread;
  const ValueId middle = b.op("t::unknown", {relu(relu(b.input()))});
  b.output(relu(middle));
  return b;
}

TEST(Plan, GivesBlocksAndReasonsWithTheFrontendsOwnNumbers) {
  const Plan made = plan(broken_in_two().graph, {.min_block_size = 1}, device());
  EXPECT_EQ(made.parts.blocks, (std::vector<std::vector<int32_t>>{{0, 1}, {3}}));
  ASSERT_EQ(made.parts.native.size(), 1U);
  EXPECT_EQ(made.parts.native[0].reason, "no converter for t::unknown");
  EXPECT_EQ(made.graph.nodes[made.parts.blocks[1][0]].origin.index, 40);
}

TEST(Plan, IsWholeWhereEnginesTakeAllThatDoesWorkInTheModel) {
  test::GraphBuilder b = broken_in_two();
  const auto whole = [&](Rest rest) {
    return is_whole(plan(b.graph, {.min_block_size = 1}, device(), rest));
  };
  EXPECT_FALSE(whole(Rest::kCaller));
  Origin& unknown = b.graph.nodes[2].origin;
  unknown.free = true;
  EXPECT_TRUE(whole(Rest::kCaller));
  EXPECT_FALSE(whole(Rest::kNobody));
  unknown = {.op = "aten::view_as_real"};  // free, and has a converter as complex::view_as_real
  EXPECT_TRUE(whole(Rest::kCaller));
  unknown = {.op = "aten::mm"};
  EXPECT_FALSE(whole(Rest::kCaller));
  b.graph.nodes[2].op = "aten::relu";
  b.graph.nodes[2].args = {tensor_arg("self", b.graph.nodes[2].all_inputs().at(0))};
  EXPECT_TRUE(whole(Rest::kCaller));
  EXPECT_TRUE(whole(Rest::kNobody));
}

/// Two products that a calibration covers, with a node between them that no engine takes.
TEST(Plan, SaysWhichCalibratedProductsAreInBlocks) {
  test::GraphBuilder b;
  const auto product = [&b](ValueId x, const char* module) {
    Node& made = b.node("aten::mm", {tensor_arg("self", x), tensor_arg("mat2", b.weight({4, 4}))},
                        {{DType::kF32, {4, 4}}});
    made.module_path = module;
    b.graph.value(made.input("mat2")).name = std::string(module) + ".weight";
    return made.outputs[0];
  };
  const ValueId x = b.input({4, 4});
  const ValueId first = product(x, "a");
  const ValueId second = product(b.op("t::unknown", {first}, {4, 4}), "b");
  b.node("aten::mm", {tensor_arg("self", second), tensor_arg("mat2", x)}, {{DType::kF32, {4, 4}}});
  b.output(b.graph.nodes.back().outputs[0]);
  Settings settings{.min_block_size = 2, .enabled_precisions = {DType::kF32, DType::kI8}};
  settings.calibration = "TRT-8601-MinMaxCalibration\na.input: 3f800000\nb.input: 3f800000\n";
  DeviceProfile profile = device();
  profile.storage8 = true;
  const CalibrationUse use = plan(b.graph, settings, profile).calibration;
  EXPECT_EQ(use.products, 3U) << "one of them has no constant weight";
  EXPECT_EQ(use.points, 2U);
  EXPECT_EQ(use.in_blocks, 1U);
  EXPECT_EQ(use.left_out, "its block has 1 compute node, fewer than min_block_size = 2");
  settings.min_block_size = 1;
  const CalibrationUse all = plan(b.graph, settings, profile).calibration;
  EXPECT_EQ(all.in_blocks, 2U);
  EXPECT_EQ(all.left_out, "");
}

TEST(Plan, BuildsTheEngineOfABlock) {
  const Plan made = plan(broken_in_two().graph, {.min_block_size = 1}, device());
  const EngineSpec spec = build(made, 0, {});
  EXPECT_EQ(spec,
            compile(extract(made.graph, made.parts.blocks[0]).graph, made.settings, device()));
  EXPECT_EQ(spec.inputs.size(), 1U);
  EXPECT_NE(key_of(made, 0), key_of(made, 1));
}

TEST(Plan, WhereNobodyRunsTheRestAllOfItIsOneEngineOrNone) {
  test::GraphBuilder b = broken_in_two();
  const Plan refused = plan(b.graph, {.min_block_size = 1}, device(), Rest::kNobody);
  EXPECT_TRUE(refused.parts.blocks.empty());
  EXPECT_EQ(refusals(refused),
            (std::vector<std::string>{"model.py:3 t::unknown: no converter for t::unknown"}));
  b.graph.nodes[2].op = "aten::relu";
  b.graph.nodes[2].args[0].name = "self";
  const Plan whole = plan(b.graph, {.min_block_size = 100}, device(), Rest::kNobody);
  EXPECT_TRUE(refusals(whole).empty());
  const EngineSpec spec = build(whole, 0, {});
  EXPECT_EQ(spec, compile(b.graph, whole.settings, device()));
  EXPECT_EQ(spec.inputs.size(), 2U) << "its inputs are the model's, read or not";
}

}  // namespace
}  // namespace tv

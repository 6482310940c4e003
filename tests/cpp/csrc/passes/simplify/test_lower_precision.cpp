#include <gtest/gtest.h>

#include <map>

#include "converters/kit/steps.h"
#include "csrc/converter.h"
#include "csrc/passes/simplify/lower_precision.h"
#include "csrc/precision.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

DType output_dtype(const Graph& graph, const std::string& op) {
  for (const Node& node : graph.nodes) {
    if (node.op == op) return graph.value(node.outputs.at(0)).dtype;
  }
  ADD_FAILURE() << "no " << op << " in\n" << dump(graph);
  return DType::kOther;
}

size_t count(const Graph& graph, const std::string& op) {
  size_t found = 0;
  for (const Node& node : graph.nodes) found += node.op == op;
  return found;
}

Settings in(DType dtype) {
  Settings settings;
  settings.enabled_precisions = {dtype};
  return settings;
}

TEST(LowerPrecision, StoresWhatIsComputedIn16Bits) {
  GraphBuilder b;
  const ValueId x = b.input(), w = b.weight();
  const ValueId y = b.work({x, w});
  const ValueId z = b.op("t::work.Other", {y, x});
  b.graph.outputs = {{.value = z, .name = "z"}};
  const Graph graph = lower_precision(b.graph, in(DType::kF16));
  check(graph, "test");
  EXPECT_EQ(output_dtype(graph, "t::work"), DType::kF16);
  EXPECT_EQ(output_dtype(graph, "t::work.Other"), DType::kF16);
  EXPECT_EQ(graph.value(graph.outputs[0].value).dtype, DType::kF32);
  EXPECT_EQ(count(graph, "aten::_to_copy"), 3u) << "x once, w, and the output\n" << dump(graph);
  EXPECT_EQ(count(graph, "aten::clamp"), 2u) << "what is not computed may pass float16's range";
  EXPECT_EQ(graph.value(graph.inputs[0]).dtype, DType::kF32);
}

TEST(LowerPrecision, KeepsWhatNeedsTheRange) {
  GraphBuilder b;
  const ValueId x = b.input();
  const ValueId y = b.op("aten::exp", {b.work({x})});
  b.graph.outputs = {{.value = y, .name = "y"}};
  const Graph graph = lower_precision(b.graph, in(DType::kF16));
  EXPECT_EQ(output_dtype(graph, "aten::exp"), DType::kF32);
  EXPECT_EQ(graph.outputs[0].value, y) << "no cast where none is needed";
}

TEST(LowerPrecision, KeepsStatisticsOfBatchNormInFloat32) {
  GraphBuilder b;
  const ValueId x = b.work({b.input({2, 3, 4})});
  const ValueId weight = b.weight({3}), bias = b.weight({3}), mean = b.weight({3}),
                var = b.weight({3});
  const Node norm =
      b.node("aten::_native_batch_norm_legit_no_training",
             {tensor_arg("input", x), tensor_arg("weight", weight), tensor_arg("bias", bias),
              tensor_arg("running_mean", mean), tensor_arg("running_var", var),
              attr_arg("momentum", 0.1), attr_arg("eps", 1e-5)},
             {{DType::kF32, {2, 3, 4}}, {DType::kF32, {0}}, {DType::kF32, {0}}});
  b.graph.outputs = {{.value = norm.outputs[0], .name = "y"}};
  const Graph graph = lower_precision(b.graph, in(DType::kF16));
  check(graph, "test");
  for (const Node& node : graph.nodes) {
    if (node.op != "aten::_native_batch_norm_legit_no_training") continue;
    EXPECT_EQ(graph.value(node.input("input")).dtype, DType::kF16);
    EXPECT_EQ(node.input("weight"), weight);
    EXPECT_EQ(node.input("bias"), bias);
    EXPECT_EQ(node.input("running_mean"), mean);
    EXPECT_EQ(node.input("running_var"), var);
  }
  EXPECT_EQ(output_dtype(graph, "aten::_native_batch_norm_legit_no_training"), DType::kF16);
}

TEST(LowerPrecision, KeepsWhatIsComputedOfWeightsAlone) {
  GraphBuilder b;
  const ValueId scaled = b.work({b.weight(), b.weight()});
  const ValueId y = b.op("t::work.Other", {b.input(), scaled});
  b.graph.outputs = {{.value = y, .name = "y"}};
  const Graph graph = lower_precision(b.graph, in(DType::kF16));
  check(graph, "test");
  EXPECT_EQ(output_dtype(graph, "t::work"), DType::kF32);
  EXPECT_EQ(output_dtype(graph, "t::work.Other"), DType::kF16);
  EXPECT_EQ(count(graph, "aten::clamp"), 2u) << "the input, and the result: a mask may be one";
}

TEST(LowerPrecision, KeepsSumsOfIntegersAndWhatScalesThem) {
  for (const auto& [from, kept] : {std::pair{DType::kI32, true},
                                   {DType::kI64, true},
                                   {DType::kI16, false},
                                   {DType::kU8, false}}) {
    GraphBuilder b;
    const ValueId sums = b.op("aten::_to_copy", {b.input({4}, from)}, {4}, DType::kF32,
                              {attr_arg("dtype", DType::kF32)});
    const ValueId y = b.op("t::work", {sums, b.input()});
    const ValueId z = b.op("t::work.Other", {y});
    b.graph.outputs = {{.value = z, .name = "z"}};
    const Graph graph = lower_precision(b.graph, in(DType::kF16));
    EXPECT_EQ(output_dtype(graph, "t::work") == DType::kF32, kept) << name(from);
    EXPECT_EQ(output_dtype(graph, "t::work.Other"), DType::kF16) << "once they are scaled";
  }
}

TEST(LowerPrecision, KeepsThemBehindWhatMovesThem) {
  GraphBuilder b;
  const auto permuted = [&](ValueId value) {
    return b
        .node("aten::permute", {tensor_arg("self", value), attr_arg("dims", ints({1, 0}))},
              {{DType::kF32, {3, 2}}})
        .outputs.at(0);
  };
  const ValueId sums = b.op("aten::_to_copy", {b.input({2, 3}, DType::kI32)}, {2, 3}, DType::kF32,
                            {attr_arg("dtype", DType::kF32)});
  const ValueId scales = b.work({b.weight({2, 3}), b.weight({2, 3})}, {2, 3});
  const ValueId y = b.op("t::work.Other", {permuted(sums), permuted(scales)}, {3, 2});
  b.graph.outputs = {{.value = y, .name = "y"}};
  const Graph graph = lower_precision(b.graph, in(DType::kF16));
  EXPECT_EQ(output_dtype(graph, "t::work.Other"), DType::kF32);
  EXPECT_EQ(count(graph, "aten::_to_copy"), 1u) << dump(graph);
}

TEST(LowerPrecision, CopiesOfIntegersAreNoFloats) {
  GraphBuilder b;
  const ValueId at = b.op("aten::_to_copy", {b.input({4}, DType::kI64)}, {4}, DType::kI64);
  b.graph.outputs = {{.value = b.op("t::work", {b.input(), at}), .name = "y"}};
  EXPECT_EQ(output_dtype(lower_precision(b.graph, in(DType::kF16)), "t::work"), DType::kF16);
}

TEST(LowerPrecision, KeepsSingleNumbers) {
  GraphBuilder b;
  const ValueId scale = b.work({b.input({1}), b.input({})}, {1});
  const ValueId y = b.op("t::work.Other", {b.input(), scale});
  b.graph.outputs = {{.value = y, .name = "y"}};
  const Graph graph = lower_precision(b.graph, in(DType::kF16));
  EXPECT_EQ(output_dtype(graph, "t::work"), DType::kF32);
}

TEST(LowerPrecision, DoesNotWidenWhatIsReducedToANumber) {
  GraphBuilder b;
  const ValueId x = b.work({b.input()});
  b.graph.outputs = {{.value = b.op("t::work.Other", {x}, {}), .name = "y"}};
  EXPECT_EQ(output_dtype(lower_precision(b.graph, in(DType::kF16)), "t::work.Other"), DType::kF16);
}

TEST(LowerPrecision, PutsNoCastBeforeWhatMovesDequantisedElements) {
  GraphBuilder b;
  const Node& floats = b.node(
      "tv::dequantize",
      {tensor_arg("input", b.input({2, 3}, DType::kI8)), tensor_arg("scale", b.weight({1, 1})),
       tensor_arg("zero_point", kNoValue), attr_arg("bits", Expr(8))},
      {{DType::kF32, {2, 3}}});
  const ValueId moved =
      b.node("aten::permute",
             {tensor_arg("self", floats.outputs.at(0)), attr_arg("dims", ints({1, 0}))},
             {{DType::kF32, {3, 2}}})
          .outputs.at(0);
  b.graph.outputs = {{.value = b.op("t::work", {moved}, {3, 2}), .name = "y"}};
  const Graph graph = lower_precision(b.graph, in(DType::kF16));
  EXPECT_EQ(output_dtype(graph, "aten::permute"), DType::kF32);
  EXPECT_EQ(output_dtype(graph, "t::work"), DType::kF16);
}

TEST(LowerPrecision, LeavesOtherTypesAlone) {
  GraphBuilder b;
  const ValueId ids = b.input({4}, DType::kI64);
  const ValueId counts = b.op("t::work", {ids}, {4}, DType::kI64);
  const ValueId made =
      b.op("t::work.Other", {counts}, {4}, DType::kF32, {attr_arg("dtype", DType::kF32)});
  b.graph.outputs = {{.value = counts, .name = "counts"}, {.value = made, .name = "made"}};
  const Graph graph = lower_precision(b.graph, in(DType::kBF16));
  EXPECT_EQ(dump(graph), dump(b.graph));
}

TEST(LowerPrecision, ChangesDtypeAttributes) {
  GraphBuilder b;
  const ValueId y =
      b.op("t::work", {b.input()}, {4}, DType::kF32, {attr_arg("dtype", DType::kF32)});
  b.graph.outputs = {{.value = y, .name = "y"}};
  const Graph graph = lower_precision(b.graph, in(DType::kBF16));
  for (const Node& node : graph.nodes) {
    if (node.op != "t::work") continue;
    EXPECT_EQ(std::get<DType>(node.arg("dtype").attr), DType::kBF16);
  }
  EXPECT_EQ(count(graph, "aten::clamp"), 0u) << "bfloat16 has float32's range";
}

TEST(LowerPrecision, KeepsTheTypesOfWhatIsHeldIn16Bits) {
  GraphBuilder b;
  const ValueId half = b.input({4}, DType::kF16);
  const ValueId y = b.op("aten::exp", {half}, {4}, DType::kF16);
  b.graph.outputs = {{.value = y, .name = "y"}};
  const Graph graph = lower_precision(b.graph, in(DType::kF16));
  EXPECT_EQ(dump(graph), dump(b.graph));
}

TEST(LowerPrecision, LeavesOutWhatTheUserExcludes) {
  for (const auto& exclude : {+[](Settings& s) { s.autocast_excluded_ops = {"t::work"}; },
                              +[](Settings& s) { s.autocast_excluded_nodes = {"^layer[12]\\."}; },
                              +[](Settings& s) { s.autocast_excluded_nodes = {"first"}; }}) {
    GraphBuilder b;
    const ValueId x = b.input();
    const ValueId y = b.work({x});
    b.graph.nodes.back().name = "the_first";
    b.graph.nodes.back().module_path = "layer2.linear";
    const ValueId z = b.op("t::work.Other", {y}, {4}, DType::kF32);
    b.graph.nodes.back().op = "t::other";
    b.graph.outputs = {{.value = z, .name = "z"}};
    Settings settings = in(DType::kF16);
    exclude(settings);
    const Graph graph = lower_precision(b.graph, settings);
    EXPECT_EQ(output_dtype(graph, "t::work"), DType::kF32);
    EXPECT_EQ(output_dtype(graph, "t::other"), DType::kF16);
  }
}

TEST(LowerPrecision, OverloadsOfAnOperatorAreKeptAlike) {
  std::map<std::string, bool> kept;
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (op == "aten::view.dtype") continue;  // reads bits, the other view does not
    const auto [first, fresh] =
        kept.try_emplace(op.substr(0, op.find('.')), converter.keeps_float32);
    EXPECT_EQ(first->second, converter.keeps_float32) << op;
  }
  EXPECT_TRUE(kept.at("aten::exp") && kept.at("aten::sum") && kept.at("aten::index_put"));
  EXPECT_FALSE(kept.at("aten::add") || kept.at("aten::addmm"));
}

TEST(LowerPrecision, IsChosenByTheSettings) {
  Settings settings;
  EXPECT_EQ(low_precision(settings), DType::kOther);
  settings.enabled_precisions = {DType::kF32, DType::kBF16};
  EXPECT_EQ(low_precision(settings), DType::kBF16);
}

}  // namespace
}  // namespace tv

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/passes/quantise/calibrate.h"
#include "csrc/passes/quantise/measure_integers.h"
#include "csrc/passes/quantise/multiply_integers.h"
#include "csrc/passes/quantise/quantise_calibrated.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Calibrated : GraphBuilder {
  /// As capturing calls it.
  ValueId weight(Shape shape, DType dtype = DType::kF32) {
    const ValueId made = GraphBuilder::weight(std::move(shape), dtype);
    graph.value(made).name = "arg" + std::to_string(made) + "_1";
    return made;
  }
  ValueId linear(ValueId x, ValueId w, std::string module, ValueId bias = kNoValue) {
    Shape out = graph.value(x).shape;
    out.back() = graph.value(w).shape[0];
    Node& made = node("aten::linear",
                      {tensor_arg("input", x), tensor_arg("weight", w), tensor_arg("bias", bias)},
                      {{DType::kF32, out}});
    made.module_path = std::move(module);
    return made.outputs[0];
  }
  ValueId view(const char* op, ValueId x, Shape shape) {
    return node(op, {tensor_arg("self", x)}, {{graph.value(x).dtype, std::move(shape)}}).outputs[0];
  }
  std::vector<std::string> names(const Settings& settings = {}) const {
    std::vector<std::string> found;
    for (const CalibrationPoint& point : calibration_points(graph, settings)) {
      found.push_back(point.name);
    }
    return found;
  }
};

Settings int8(const std::string& lines) {
  Settings settings;
  settings.enabled_precisions = {DType::kF32, DType::kI8};
  settings.calibration = "TRT-8601-MinMaxCalibration\n" + lines;
  return settings;
}

DeviceProfile device() {
  DeviceProfile profile = DeviceProfile::builtin_default();
  profile.storage8 = true;
  return profile;
}

CalibrationUse use(Calibrated& b, const Settings& settings) {
  return calibrate(b.graph, settings, device());
}

using Names = std::vector<std::string>;

TEST(Calibrate, PointsGoByTheirModules) {
  Calibrated b;
  const ValueId w = b.weight({8, 8});
  ValueId x = b.linear(b.input({2, 8}), w, "layer.a");
  x = b.linear(x, w, "layer.b");
  b.output(b.linear(b.linear(x, w, "layer.a"), w, ""));
  EXPECT_EQ(b.names(), (Names{"layer.a.input", "layer.b.input", "layer.a.input.1", "input"}));
  // What is excluded does not rename others.
  Settings settings;
  settings.autocast_excluded_nodes = {"n0"};
  EXPECT_EQ(b.names(settings), (Names{"layer.b.input", "layer.a.input.1", "input"}));
}

TEST(Calibrate, OrByTheirWeights) {
  Calibrated b;
  const auto named = [&b](const std::string& name, Shape shape = {8, 8}) {
    const ValueId w = b.weight(std::move(shape));
    b.graph.value(w).name = name;
    return w;
  };
  const ValueId a = named("layer.a.weight"), matrix = named("matrix"), w = named("weight");
  ValueId x = b.linear(b.input({2, 8}), a, "layer");
  x = b.linear(b.linear(x, a, "other"), b.view("aten::t", matrix, {8, 8}), "layer");
  b.output(b.linear(b.linear(x, w, "layer"), named("arg3_1"), "layer.b"));
  EXPECT_EQ(b.names(),
            (Names{"layer.a.input", "layer.a.input.1", "matrix.input", "input", "layer.b.input"}));
  const auto points = calibration_points(b.graph, {});
  EXPECT_EQ(points[2].leaves, std::vector<ValueId>{matrix});
  EXPECT_EQ(points[0].making, points[1].making);
  EXPECT_NE(points[1].making, points[2].making);
}

TEST(Calibrate, OrByTheTensorsOfAFile) {
  Calibrated b;
  b.graph.names_of_file = true;
  const ValueId x = b.input({2, 3, 8});
  b.graph.value(x).name = "x";
  const ValueId rows = b.view("aten::view", x, {6, 8});
  b.output(b.linear(rows, b.weight({4, 8}), "matmul"));
  b.graph.nodes[0].source = b.graph.nodes[1].source = "[MatMul \"matmul\"]";
  EXPECT_EQ(b.names(), (Names{"x"}));
  b.graph.nodes[0].source = "[Reshape \"r\"]";  // a tensor of its own
  b.graph.value(rows).name = "r";
  EXPECT_EQ(b.names(), (Names{"r"}));
}

TEST(Calibrate, WhatIsNoPoint) {
  Calibrated b;
  const ValueId x = b.input({2, 8});
  const ValueId bytes = b.weight({8, 8}, DType::kI8);
  const ValueId w = b.view("aten::_to_copy", b.view("aten::t", bytes, {8, 8}), {8, 8});
  b.graph.value(w).dtype = DType::kF32;
  b.linear(x, w, "its weight is quantised");
  b.linear(x, b.input({8, 8}), "its weight is no constant");
  b.linear(b.weight({2, 8}), b.weight({8, 8}), "constants");
  b.linear(b.input({40000}), b.weight({8, 40000}), "a vector");
  b.linear(b.input({2, 40000}), b.weight({8, 40000}), "more than 32 bits hold");
  EXPECT_TRUE(b.names().empty()) << dump(b.graph);
}

TEST(Calibrate, ScalesGoIntoNodes) {
  Calibrated b;
  const ValueId w = b.weight({8, 8});
  b.output(b.linear(b.linear(b.linear(b.input({2, 8}), w, "a"), w, "b"), w, "c"));
  const CalibrationUse found = use(b, int8("a.input: 3f800000\nb.input: 0\nother: 3f800000\n"));
  EXPECT_EQ(found.points, 3u);
  EXPECT_EQ(found.scaled, 1u);
  EXPECT_EQ(found.missing, (Names{"b.input", "c.input"}));
  EXPECT_EQ(found.unused, (Names{"other"}));
  EXPECT_EQ(b.graph.nodes[0].input_scale, 1);
  EXPECT_EQ(b.graph.nodes[1].input_scale, 0);
  // What is cut out of the graph keeps its scales, whatever its points would be called.
  EXPECT_EQ(use(b, int8("x: 3f800000\n")).points, 0u);
  EXPECT_NE(signature(b.graph.nodes[0]).find("input_scale 1.0"), std::string::npos);
}

TEST(Calibrate, Refuses) {
  const auto refused = [](const Settings& settings) -> std::string {
    Calibrated b;
    b.output(b.linear(b.input({2, 8}), b.weight({8, 8}), "a"));
    try {
      use(b, settings);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused(int8("other: 3f800000\n")).find("the model has 'a.input'"), std::string::npos);
  Settings settings = int8("a.input: 3f800000\n");
  settings.enabled_precisions = {};
  EXPECT_NE(refused(settings).find("calibration needs int8"), std::string::npos);
  settings = {};
  settings.enabled_precisions = {DType::kI8};
  EXPECT_NE(refused(settings).find("needs a calibration"), std::string::npos);
  EXPECT_EQ(refused(int8("a.input: 3f800000\n")), "");
}

TEST(Calibrate, OfAQuantisedGraphInt8NeedsNone) {
  Calibrated b;
  const ValueId x = b.input({2, 8}), w = b.weight({8, 8}, DType::kI8);
  Node& floats = b.node("tv::dequantize", {tensor_arg("input", w)}, {{DType::kF32, {8, 8}}});
  b.output(b.linear(x, floats.outputs[0], "a"));
  Settings settings;
  settings.enabled_precisions = {DType::kF32, DType::kI8};
  EXPECT_EQ(use(b, settings).scaled, 0u);
}

TEST(Calibrate, ADeviceWithoutBytes) {
  Calibrated b;
  b.output(b.linear(b.input({2, 8}), b.weight({8, 8}), "a"));
  DeviceProfile without = device();
  without.storage8 = false;
  EXPECT_NE(calibrate(b.graph, int8("a.input: 3f800000\n"), without).refusal.find("8-bit storage"),
            std::string::npos);
  EXPECT_EQ(b.graph.nodes[0].input_scale, 0);
}

TEST(Calibrate, RequiredInInt8) {
  const std::string scale = "a.input: 3f800000\n", mark = "#torch_vulkan required a.input: 0\n";
  Calibrated b;
  b.output(b.linear(b.linear(b.input({2, 8}), b.weight({8, 8}), "a"), b.weight({8, 8}), "b"));
  use(b, int8(scale + "b.input: 3f800000\n" + mark));
  // It is no matter how long the one takes.
  const GraphUs slow = [](const Graph& alone) {
    return std::optional<double>(alone.nodes[0].input_scale > 0 ? 2 : 1);
  };
  const Graph measured = measure_integers(b.graph, {}, device(), slow);
  EXPECT_EQ(measured.nodes[0].input_scale, 1);
  EXPECT_EQ(measured.nodes[1].input_scale, 0);
  const Graph graph = multiply_integers(quantise_calibrated(measured));
  check(graph, "test");
  EXPECT_TRUE(
      std::ranges::none_of(graph.nodes, [](const Node& n) { return n.has(kInt8Required); }));
  EXPECT_EQ(std::ranges::count(graph.nodes, "tv::matmul_integer", &Node::op), 1) << dump(graph);
}

TEST(Calibrate, RequiredInInt8AndCannotBe) {
  const std::string mark = "#torch_vulkan required a.input: 0\n";
  const auto refused = [](const std::string& lines, ErrorKind kind, bool storage8 = true,
                          const std::string& excluded = "none") -> std::string {
    Calibrated b;
    b.output(b.linear(b.linear(b.input({2, 8}), b.weight({8, 8}), "a"), b.weight({8, 8}), "b"));
    DeviceProfile profile = device();
    profile.storage8 = storage8;
    Settings settings = int8(lines);
    settings.autocast_excluded_nodes = {excluded};
    try {
      calibrate(b.graph, settings, profile);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    return "";
  };
  const std::string both = "a.input: 3f800000\nb.input: 3f800000\n";
  EXPECT_EQ(refused(both + mark, ErrorKind::kUser), "");
  EXPECT_NE(refused("b.input: 3f800000\n" + mark, ErrorKind::kUser).find("has no scale"),
            std::string::npos);
  EXPECT_NE(refused(both + mark, ErrorKind::kUser, true, "^a$").find("that is not excluded"),
            std::string::npos);
  EXPECT_NE(refused(both + mark, ErrorKind::kUnsupported, false).find("8-bit storage"),
            std::string::npos);
}

TEST(QuantiseCalibrated, WhatIsRequiredAndIsNoProductOfIntegersIsAnError) {
  Calibrated b;
  b.output(b.linear(b.input({2, 8}), b.input({8, 8}), "a"));  // whose weight is no constant
  b.graph.nodes[0].input_scale = 1;
  b.graph.nodes[0].args.push_back(attr_arg(kInt8Required, true));
  EXPECT_THROW(quantise_calibrated(b.graph), Error);
}

size_t count(const Graph& graph, std::string_view op) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes, [&](const Node& node) { return node.op == op; }));
}

TEST(QuantiseCalibrated, ProductsBecomeThoseOfIntegers) {
  Calibrated b;
  const ValueId x = b.input({2, 8});
  b.output(b.linear(x, b.weight({8, 8}), "a", b.weight({8})));
  b.output(b.linear(x, b.weight({6, 8}), "b"));
  use(b, int8("a.input: 3f800000\nb.input: 3f800000\n"));
  Graph graph = quantise_calibrated(b.graph);
  check(graph, "test");
  EXPECT_EQ(count(graph, "tv::dequantize"), 4u) << dump(graph);
  graph = multiply_integers(std::move(graph));
  check(graph, "test");
  EXPECT_EQ(count(graph, "tv::matmul_integer"), 2u) << dump(graph);
  EXPECT_EQ(count(graph, "aten::linear"), 0u) << dump(graph);
  // Both read x in the same steps: it is quantised once.
  EXPECT_EQ(count(graph, "tv::quantize"), 1u) << dump(graph);
  EXPECT_EQ(count(graph, "aten::round"), 2u) << dump(graph);  // of the weights
}

TEST(QuantiseCalibrated, WhatHasNoScaleStays) {
  Calibrated b;
  b.output(b.linear(b.input({2, 8}), b.weight({8, 8}), "a"));
  EXPECT_EQ(dump(quantise_calibrated(b.graph)), dump(b.graph));
}

TEST(MeasureIntegers, TheFasterFormIsTaken) {
  const auto scales = [](std::optional<double> integers_us, std::optional<double> floats_us) {
    Calibrated b;
    const ValueId w = b.weight({8, 8});
    b.output(b.linear(b.linear(b.input({2, 8}), w, "a"), w, "b"));
    b.graph.nodes[1].input_scale = 0.5;
    const Graph graph = measure_integers(b.graph, {}, device(), [&](const Graph& alone) {
      if (alone.nodes.size() == 2) return std::optional<double>();  // the whole graph
      EXPECT_EQ(alone.nodes.size(), 1u);
      EXPECT_EQ(alone.weights.size(), 1u);
      check(alone, "test");
      return alone.nodes[0].input_scale > 0 ? integers_us : floats_us;
    });
    EXPECT_EQ(graph.nodes[0].input_scale, 0);
    return graph.nodes[1].input_scale;
  };
  EXPECT_EQ(scales(3, 4), 0.5);
  EXPECT_EQ(scales(4, 3), 0);
  EXPECT_EQ(scales(4, std::nullopt), 0.5);
  EXPECT_EQ(scales(std::nullopt, 3), 0.5);
}

TEST(MeasureIntegers, TheWholeGraphIsTimedToo) {
  const auto scales = [](std::optional<double> floats_us, bool required = false) {
    Calibrated b;
    const ValueId w = b.weight({8, 8});
    b.output(b.linear(b.linear(b.linear(b.input({2, 8}), w, "a"), w, "b"), w, "c"));
    for (Node& node : b.graph.nodes) node.input_scale = 0.5;
    if (required) b.graph.nodes[0].args.push_back(attr_arg(kInt8Required, true));
    const Graph graph = measure_integers(b.graph, {}, device(), [&](const Graph& some) {
      const auto integers = std::ranges::count(some.nodes, 0.5, &Node::input_scale);
      if (some.nodes.size() == 1) {  // alone, the last is faster in floats
        const bool last = some.nodes[0].name == b.graph.nodes[2].name;
        return std::optional<double>(integers == (last ? 0 : 1) ? 1 : 2);
      }
      return integers == 2 ? std::optional<double>(5) : floats_us;
    });
    std::vector<double> found;
    for (const Node& node : graph.nodes) found.push_back(node.input_scale);
    return found;
  };
  EXPECT_EQ(scales(6), (std::vector<double>{0.5, 0.5, 0}));
  EXPECT_EQ(scales(std::nullopt), (std::vector<double>{0.5, 0.5, 0}));
  EXPECT_EQ(scales(4), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(scales(4, true), (std::vector<double>{0.5, 0, 0}));
}

TEST(MeasureIntegers, ConvolutionsInSixteenBitsStayWithMatrixUnits) {
  DeviceProfile units = device();
  units.coop_matrices = {{16, 16, 16, "float16", "float16", "float32", "float32"}};
  const auto scale = [](DType dtype, const DeviceProfile& profile, const GraphUs& us,
                        const Settings& settings = {}) {
    Calibrated b;
    const ValueId x = b.input({1, 8, 6, 6}, dtype), w = b.weight({4, 8, 3, 3}, dtype);
    b.output(b.node("aten::convolution",
                    {tensor_arg("input", x), tensor_arg("weight", w), tensor_arg("bias", kNoValue)},
                    {{dtype, {1, 4, 4, 4}}})
                 .outputs[0]);
    b.graph.nodes[0].input_scale = 0.5;
    return measure_integers(b.graph, settings, profile, us).nodes[0].input_scale;
  };
  const GraphUs unknown = [](const Graph&) { return std::optional<double>(); };
  const GraphUs integers = [](const Graph& alone) {
    return std::optional<double>(alone.nodes[0].input_scale > 0 ? 1 : 2);
  };
  Settings without;
  without.matrix_units = false;
  for (const GraphUs& us : {GraphUs(), unknown}) {
    EXPECT_EQ(scale(DType::kF16, units, us), 0);
    EXPECT_EQ(scale(DType::kF32, units, us), 0.5);
    EXPECT_EQ(scale(DType::kF16, device(), us), 0.5);
    EXPECT_EQ(scale(DType::kF16, units, us, without), 0.5);
  }
  EXPECT_EQ(scale(DType::kF16, units, integers), 0.5) << "what is measured counts";
}

TEST(MeasureIntegers, ByRuleFewRowsAndLargeProductsGainBesideMatrixUnits) {
  DeviceProfile units = device();
  units.coop_matrices = {{16, 16, 16, "float16", "float16", "float32", "float32"}};
  const auto scale = [&](int64_t rows, int64_t size, DType dtype = DType::kF16) {
    Calibrated b;
    const ValueId x = b.input({rows, size}, dtype), w = b.weight({size, size}, dtype);
    b.output(
        b.node("aten::mm", {tensor_arg("self", x), tensor_arg("mat2", w)}, {{dtype, {rows, size}}})
            .outputs[0]);
    b.graph.nodes[0].input_scale = 0.5;
    return measure_integers(b.graph, {}, units, {}).nodes[0].input_scale;
  };
  EXPECT_EQ(scale(1, 1024), 0.5);
  EXPECT_EQ(scale(8, 1024), 0.5);
  EXPECT_EQ(scale(9, 1024), 0);
  EXPECT_EQ(scale(2048, 1024), 0);
  EXPECT_EQ(scale(4096, 4096), 0.5);
  EXPECT_EQ(scale(2048, 1024, DType::kF32), 0.5);
}

}  // namespace
}  // namespace tv

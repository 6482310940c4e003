// Results of convolutions stored with channels side by side: which, and that nothing else changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "converters/kit/steps.h"
#include "csrc/lowering/lower.h"
#include "csrc/lowering/node_times.h"
#include "csrc/passes/fuse/fuse.h"
#include "csrc/passes/layouts/choose_channels_last.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "csrc/passes/layouts/measure_layouts.h"
#include "csrc/passes/simplify/canonicalise.h"
#include "runtime/engine/engine.h"
#include "tests/cpp/kit/graph_builder.h"
#include "workloads/conv_problem.h"

namespace tv {
namespace {

/// Graphs of convolutions of 3x3 with padding 1, weights as graph weights.
struct Net {
  Graph graph;
  DType dtype = DType::kF32;

  ValueId leaf(std::vector<ValueId>& list, ValueKind kind, Shape shape) {
    const ValueId id = graph.add_value({.name = "leaf" + std::to_string(graph.values.size()),
                                        .dtype = dtype,
                                        .shape = std::move(shape),
                                        .kind = kind,
                                        .view = std::nullopt});
    list.push_back(id);
    return id;
  }
  ValueId input(Shape shape) { return leaf(graph.inputs, ValueKind::kInput, std::move(shape)); }

  ValueId add(const std::string& op, std::vector<Arg> args, Shape shape) {
    Node node;
    node.op = op;
    node.name = "n" + std::to_string(graph.nodes.size());
    node.args = std::move(args);
    const ValueId id = graph.add_output(node, dtype, std::move(shape));
    graph.nodes.push_back(std::move(node));
    return id;
  }
  ValueId conv(ValueId x, int64_t oc, int64_t groups = 1, int64_t stride = 1) {
    const Shape s = graph.value(x).shape;
    const ValueId w = leaf(graph.weights, ValueKind::kWeight, {oc, floordiv(s[1], groups), 3, 3});
    const auto out = [&](const Expr& size) { return floordiv(size - 1, stride) + 1; };
    return add("aten::convolution",
               {tensor_arg("input", x), tensor_arg("weight", w), tensor_arg("bias", kNoValue),
                attr_arg("stride", ints({stride, stride})), attr_arg("padding", ints({1, 1})),
                attr_arg("dilation", ints({1, 1})), attr_arg("transposed", false),
                attr_arg("output_padding", ints({0, 0})), attr_arg("groups", integer(groups))},
               {s[0], oc, out(s[2]), out(s[3])});
  }
  ValueId plus(ValueId a, ValueId b) {
    return add("aten::add.Tensor",
               {tensor_arg("self", a), tensor_arg("other", b), attr_arg("alpha", integer(1))},
               graph.value(a).shape);
  }
  ValueId relu(ValueId a) {
    return add("aten::relu", {tensor_arg("self", a)}, graph.value(a).shape);
  }
  void output(ValueId id) { graph.outputs.push_back({.value = id, .name = "y", .strides = {}}); }
};

Graph prepared(Graph graph, const DeviceProfile& device) {
  graph = canonicalise(std::move(graph), {}, device);
  graph = choose_layouts(std::move(graph), {}, device);
  return fuse(std::move(graph), device);
}

bool is_last(const Graph& graph, const Node& node) {
  const Value& value = graph.value(node.outputs[0]);
  return value.view && value.view->strides[1] == Expr(1);
}

/// A block of a residual network: only its end is read by the graph's output.
Net block() {
  Net net;
  const ValueId x = net.input({2, 8, 9, 7});
  const ValueId a = net.relu(net.conv(x, 16));
  const ValueId b = net.relu(net.conv(a, 32));
  const ValueId depthwise = net.conv(b, 32, 32);
  const ValueId c = net.relu(net.plus(net.conv(depthwise, 16), a));
  net.output(net.conv(c, 24, 2, 2));
  return net;
}

TEST(ChannelsLast, ResultsThatOnlyConvolutionsRead) {
  const DeviceProfile device = DeviceProfile::builtin_default();
  const Graph before = prepared(block().graph, device);
  const Graph after = choose_channels_last(before, DeviceProfile::builtin_default());
  check(after, "choose_channels_last");
  ASSERT_EQ(after.nodes.size(), 5u) << "the epilogues fuse";
  for (size_t n = 0; n < 5; ++n) EXPECT_EQ(is_last(after, after.nodes[n]), n != 4) << n;
}

TEST(ChannelsLast, OtherReadersAndOddChannelsKeepTheLayout) {
  const DeviceProfile device = DeviceProfile::builtin_default();
  Net net;
  const ValueId x = net.input({1, 8, 9, 7});
  const ValueId summed = net.conv(x, 16), odd = net.conv(x, 12), grouped = net.conv(x, 16);
  net.output(
      net.add("aten::sum.dim_IntList",
              {tensor_arg("self", summed), attr_arg("dim", ints({2})), attr_arg("keepdim", false)},
              {1, 16, 7}));
  net.output(net.conv(summed, 16));
  net.output(net.conv(odd, 16));
  net.output(net.conv(grouped, 16, 4));
  const Graph after = choose_channels_last(prepared(std::move(net.graph), device), device);
  for (const Node& node : after.nodes) {
    if (node.op != "aten::convolution") continue;
    EXPECT_FALSE(is_last(after, node)) << node.name;
  }
}

/// Two convolutions of bytes, and a third of the first's result: whether that lies by pixels.
bool moves_bytes(int64_t channels, bool units) {
  DeviceProfile device = DeviceProfile::builtin_default();
  if (units) device.coop_matrices.push_back({16, 16, 32, "int8", "int8", "int32", "int32"});
  test::GraphBuilder b;
  const auto conv = [&](ValueId x, int64_t to) {
    const int64_t from = *b.graph.value(x).shape[1].constant();
    const ValueId sums =
        b.node(
             "tv::convolution_integer",
             {tensor_arg("input", x), tensor_arg("weight", b.weight({to, from, 1, 1}, DType::kI8)),
              tensor_arg("input_zero", kNoValue), tensor_arg("weight_zero", kNoValue),
              attr_arg("stride", ints({1, 1})), attr_arg("padding", ints({0, 0})),
              attr_arg("dilation", ints({1, 1})), attr_arg("transposed", false),
              attr_arg("output_padding", ints({0, 0})), attr_arg("groups", integer(1))},
             {{DType::kI32, {1, to, 9, 7}}})
            .outputs.at(0);
    return b
        .node("aten::_to_copy", {tensor_arg("self", sums), attr_arg("dtype", DType::kI8)},
              {{DType::kI8, {1, to, 9, 7}}})
        .outputs.at(0);
  };
  b.output(conv(conv(b.input({1, 16, 9, 7}, DType::kI8), channels), 16));
  const Graph after = choose_channels_last(prepared(std::move(b.graph), device), device);
  for (const Node& node : after.nodes) {
    if (node.op == "tv::convolution_integer") return is_last(after, node);
  }
  ADD_FAILURE() << dump(after);
  return false;
}

TEST(ChannelsLast, IntegersWhereMatricesOfBytesAreMultiplied) {
  EXPECT_TRUE(moves_bytes(32, true));
  EXPECT_FALSE(moves_bytes(32, false));
  EXPECT_FALSE(moves_bytes(24, true)) << "a chunk has 16 channels";
}

std::vector<float> run(const std::shared_ptr<Device>& device, const Graph& graph,
                       const DeviceProfile& used, std::vector<std::vector<float>>& leaves) {
  EngineSpec spec = lower(graph, {}, used);
  spec.runs_on.clear();
  spec.tuned_for.clear();
  const auto engine = Engine::create(device, spec);
  std::vector<HostTensor> inputs, weights;
  const auto tensor = [&](size_t i) {
    return HostTensor{leaves[i].data(), static_cast<int64_t>(leaves[i].size() * 4)};
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) inputs.push_back(tensor(i));
  for (size_t i = 0; i < graph.weights.size(); ++i) weights.push_back(tensor(inputs.size() + i));
  std::vector<float> y(
      static_cast<size_t>(*product(graph.value(graph.outputs[0].value).shape).constant()), NAN);
  const auto set = engine->prepare_weights(weights);
  engine->run(*set, {}, inputs,
              std::vector<HostTensor>{{y.data(), static_cast<int64_t>(y.size() * 4)}});
  return y;
}

/// A block that squeezes and excites: a sum and a product read a convolution's result.
Net excited() {
  Net net;
  const ValueId x = net.input({2, 8, 9, 7});
  const ValueId a = net.relu(net.conv(x, 16));
  const ValueId mean =
      net.add("aten::mean.dim",
              {tensor_arg("self", a), attr_arg("dim", ints({2, 3})), attr_arg("keepdim", true)},
              {2, 16, 1, 1});
  const ValueId gate = net.add("aten::sigmoid", {tensor_arg("self", mean)}, {2, 16, 1, 1});
  const ValueId y = net.add("aten::mul.Tensor", {tensor_arg("self", a), tensor_arg("other", gate)},
                            {2, 16, 9, 7});
  net.output(net.conv(net.conv(y, 24), 32));
  return net;
}

/// Times by layout: of each node that writes or reads images with the channels as neighbours
/// `last`, of each other `first`.
NodesUs by_layout(double last, double first) {
  return [=](const Graph& graph, std::span<const size_t> nodes) {
    double sum = 0;
    for (const size_t n : nodes) {
      std::vector<ValueId> values = graph.nodes[n].all_inputs();
      values.push_back(graph.nodes[n].outputs[0]);
      const bool any = std::ranges::any_of(values, [&](ValueId v) {
        const Value& value = graph.value(v);
        return value.name.ends_with("_last") ||
               (value.view && graph.value(value.view->base).name.ends_with("_last"));
      });
      sum += any ? last : first;
    }
    return sum;
  };
}

size_t count_last(const Graph& graph) {
  std::set<ValueId> bases;
  for (const Node& node : graph.nodes) {
    const Value& value = graph.value(node.outputs[0]);
    const ValueId base = value.view ? value.view->base : node.outputs[0];
    if (graph.value(base).name.ends_with("_last")) bases.insert(base);
  }
  return bases.size();
}

TEST(ChannelsLast, MeasuredTimesDecideWhereTheRuleStandsForOneSide) {
  const DeviceProfile device = DeviceProfile::builtin_default();
  const Graph rule = choose_channels_last(prepared(excited().graph, device), device);
  EXPECT_EQ(count_last(rule), 1U) << "what convolutions alone read";
  const Graph last = measure_layouts(rule, by_layout(1, 2));
  check(last, "measure_layouts");
  EXPECT_EQ(count_last(last), 3U) << dump(last);
  for (const Node& node : last.nodes) {
    if (node.op != "tv::pointwise") continue;
    const Value& result = last.value(node.outputs[0]);
    EXPECT_FALSE(result.view) << "it walks as it stores";
    EXPECT_EQ(result.shape, (Shape{2, 9, 7, 16}));
  }
  const Graph first = measure_layouts(rule, by_layout(2, 1));
  check(first, "measure_layouts");
  EXPECT_EQ(count_last(first), 0U) << dump(first);
  const Graph near = measure_layouts(rule, by_layout(0.97, 1));
  EXPECT_EQ(count_last(near), 1U) << "too little to leave the rule for";
  const NodesUs unknown = [](const Graph&, std::span<const size_t>) {
    return std::optional<double>();
  };
  EXPECT_EQ(dump(measure_layouts(rule, unknown)), dump(rule));
}

/// Generates the kernels of every tactic that applies; each takes 1 µs.
class GeneratingCosts : public CostModel {
 public:
  TacticChoice choose(const TacticProblem& problem, size_t rule, const Progress&) override {
    EXPECT_TRUE(problem.for_comparison);
    for (size_t i = 0; i < problem.candidates.size(); ++i) {
      if (problem.candidates[i].refusal.empty()) kernels += problem.program(i).kernels.size();
    }
    return {.candidate = rule,
            .step_us = {},
            .notes = {},
            .candidate_us = std::vector<double>(problem.candidates.size(), 1.0)};
  }
  size_t kernels = 0;
};

TEST(ChannelsLast, WhatIsComparedCanBeBuilt) {
  for (const Net& net : {block(), excited()}) {
    const Settings settings;
    const DeviceProfile device = test::as_gpu(DeviceProfile::builtin_default());
    GeneratingCosts costs;
    NodeTimes times(settings, device, costs, nullptr);
    size_t compared = 0;
    for (const double last : {0.5, 2.0}) {
      measure_layouts(choose_channels_last(prepared(net.graph, device), device),
                      [&](const Graph& graph, std::span<const size_t> nodes) {
                        check(graph, "measure_layouts");
                        const auto us = times.us(graph, nodes);
                        EXPECT_EQ(us, static_cast<double>(nodes.size()));
                        ++compared;
                        return by_layout(last, 1)(graph, nodes);
                      });
    }
    EXPECT_GE(compared, 6U);
    EXPECT_GT(costs.kernels, 20U);
  }
}

void expect_same_numbers(Graph graph) {
  const auto device = open_device("");
  const DeviceProfile used = test::as_gpu(profile(*device));
  const Graph before = prepared(std::move(graph), used);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> leaves;
  for (const auto* list : {&before.inputs, &before.weights}) {
    for (const ValueId id : *list) {
      const Shape& shape = before.value(id).shape;
      leaves.emplace_back(static_cast<size_t>(*product(shape).constant()));
      const double fan =
          list == &before.weights ? static_cast<double>(*shape[1].constant() * 9) : 1;
      for (float& v : leaves.back()) v = normal(random) / static_cast<float>(std::sqrt(fan));
    }
  }
  const std::vector<float> want = run(device, before, used, leaves);
  const Graph rule = choose_channels_last(before, DeviceProfile::builtin_default());
  for (const Graph& after :
       {rule, measure_layouts(rule, by_layout(1, 2)), measure_layouts(rule, by_layout(2, 1))}) {
    const std::vector<float> got = run(device, after, used, leaves);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << i << dump(after);
  }
}

TEST(ChannelsLast, NumbersStayTheSame) {
  expect_same_numbers(block().graph);
  expect_same_numbers(excited().graph);
}

}  // namespace
}  // namespace tv

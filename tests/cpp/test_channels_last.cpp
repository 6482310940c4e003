// Results of convolutions stored with channels side by side: which, and that nothing else changes.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "converters/steps.h"
#include "csrc/lowering/lower.h"
#include "csrc/passes/canonicalise.h"
#include "csrc/passes/choose_channels_last.h"
#include "csrc/passes/choose_layouts.h"
#include "csrc/passes/fuse.h"
#include "runtime/engine.h"
#include "tests/cpp/conv_problem.h"

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
  ValueId relu(ValueId a) { return add("aten::relu", {tensor_arg("self", a)}, graph.value(a).shape); }
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
  const Graph after = choose_channels_last(before);
  check(after, "choose_channels_last");
  ASSERT_EQ(after.nodes.size(), 5u) << "the tails fuse";
  for (size_t n = 0; n < 5; ++n) EXPECT_EQ(is_last(after, after.nodes[n]), n != 4) << n;
}

TEST(ChannelsLast, OtherReadersAndOddChannelsKeepTheLayout) {
  const DeviceProfile device = DeviceProfile::builtin_default();
  Net net;
  const ValueId x = net.input({1, 8, 9, 7});
  const ValueId summed = net.conv(x, 16), odd = net.conv(x, 12), grouped = net.conv(x, 16);
  net.output(net.add("aten::sum.dim_IntList",
                     {tensor_arg("self", summed), attr_arg("dim", ints({2})),
                      attr_arg("keepdim", false)},
                     {1, 16, 7}));
  net.output(net.conv(summed, 16));
  net.output(net.conv(odd, 16));
  net.output(net.conv(grouped, 16, 4));
  const Graph after = choose_channels_last(prepared(std::move(net.graph), device));
  for (const Node& node : after.nodes) {
    if (node.op != "aten::convolution") continue;
    EXPECT_FALSE(is_last(after, node)) << node.name;
  }
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

TEST(ChannelsLast, NumbersStayTheSame) {
  const auto device = open_device("");
  const DeviceProfile used = test::as_gpu(profile(*device));
  const Graph before = prepared(block().graph, used);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> leaves;
  for (const auto* list : {&before.inputs, &before.weights}) {
    for (const ValueId id : *list) {
      const Shape& shape = before.value(id).shape;
      leaves.emplace_back(static_cast<size_t>(*product(shape).constant()));
      const double fan = list == &before.weights ? static_cast<double>(*shape[1].constant() * 9) : 1;
      for (float& v : leaves.back()) v = normal(random) / static_cast<float>(std::sqrt(fan));
    }
  }
  const std::vector<float> want = run(device, before, used, leaves);
  const std::vector<float> got = run(device, choose_channels_last(before), used, leaves);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << i;
}

}  // namespace
}  // namespace tv

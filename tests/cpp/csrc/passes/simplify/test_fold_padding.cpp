#include <gtest/gtest.h>

#include "csrc/compile/compile.h"
#include "csrc/passes/simplify/fold_padding.h"
#include "runtime/engine/engine.h"
#include "runtime/vulkan/device.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphMaker;

Attr ints(std::vector<int64_t> values) { return std::vector<Expr>(values.begin(), values.end()); }

class FoldPadding : public testing::Test {
 protected:
  ValueId pad(ValueId x, std::vector<int64_t> amounts, double value = 0) {
    Shape shape = g.graph.value(x).shape;
    for (size_t i = 0; i < amounts.size(); ++i) shape[shape.size() - 1 - i / 2] += Expr(amounts[i]);
    return g.op("aten::constant_pad_nd",
                {tensor_arg("self", x), attr_arg("pad", ints(amounts)), attr_arg("value", value)},
                shape);
  }

  /// 3x3, stride 2, padding `own` around.
  ValueId convolution(ValueId x, ValueId w, int64_t own = 0) {
    const Shape in = g.graph.value(x).shape, window = g.graph.value(w).shape;
    const auto out = [&](size_t k) { return floordiv(in[k] + Expr(2 * own) - window[k], 2) + 1; };
    return g.op("aten::convolution",
                {tensor_arg("input", x), tensor_arg("weight", w), tensor_arg("bias", kNoValue),
                 attr_arg("stride", ints({2, 2})), attr_arg("padding", ints({own, own})),
                 attr_arg("dilation", ints({1, 1})), attr_arg("transposed", false),
                 attr_arg("output_padding", ints({0, 0})), attr_arg("groups", Expr(1))},
                {in[0], window[0], out(2), out(3)});
  }

  GraphMaker g;
};

TEST_F(FoldPadding, AmountsMayDiffer) {
  const ValueId x = g.input({1, 2, 8, 9});
  g.output(convolution(pad(x, {0, 1, 2, 1}), g.weight({4, 2, 3, 3}), 1));
  const Graph after = fold_padding(g.graph);
  const Node& node = after.nodes[1];
  EXPECT_EQ(node.input("input"), x);
  EXPECT_EQ(node.integers("padding"), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(after.value(node.outputs[0]).shape, g.graph.value(g.graph.outputs[0].value).shape);
  EXPECT_EQ(node.fused_ops,
            (std::vector<std::string>{"aten::constant_pad_nd", "aten::convolution"}));
}

TEST_F(FoldPadding, PadsThatStay) {
  const ValueId x = g.input({1, 2, 8, 9}), w = g.weight({4, 2, 3, 3});
  g.output(convolution(pad(x, {1, 1, 1, 1}, 0.5), w));                        // not zeros
  g.output(convolution(pad(x, {1, -1, 1, 1}), w));                            // cuts off
  g.output(convolution(pad(x, {1, 1, 1, 1, 1, 1}), g.weight({4, 4, 3, 3})));  // channels
  g.output(convolution(pad(x, {0, 1, 0, 1}), g.weight({4, 2, 1, 1})));  // reads its input as it is
  g.output(convolution(pad(x, {1, -1, 0, 0}), w));                      // the same shape
  const Graph after = fold_padding(g.graph);
  for (size_t i = 0; i < after.nodes.size(); ++i) {
    if (after.nodes[i].op != "aten::convolution") continue;
    EXPECT_EQ(after.nodes[i].input("input"), after.nodes[i - 1].outputs[0]) << i;
  }
}

TEST_F(FoldPadding, PadOfNothing) {
  const ValueId x = g.input({3, 5});
  g.output(g.pointwise("relu", {pad(x, {0, 0}, 7)}));
  g.output(pad(x, {0, 0, 0, 0}));
  const Graph after = fold_padding(g.graph);
  EXPECT_EQ(after.nodes[1].inputs("inputs"), std::vector<ValueId>{x});
  EXPECT_EQ(after.outputs[1].value, x);
}

/// Sums over the window, written down from the definition.
std::vector<float> padded_sums(const std::vector<float>& x, int64_t h, int64_t w, int64_t top,
                               int64_t left, int64_t out_h, int64_t out_w) {
  std::vector<float> y;
  for (int64_t i = 0; i < out_h; ++i) {
    for (int64_t j = 0; j < out_w; ++j) {
      float sum = 0;
      for (int64_t r = i * 2 - top; r < i * 2 - top + 3; ++r) {
        for (int64_t c = j * 2 - left; c < j * 2 - left + 3; ++c) {
          if (r >= 0 && r < h && c >= 0 && c < w) sum += x[static_cast<size_t>(r * w + c)];
        }
      }
      y.push_back(sum);
    }
  }
  return y;
}

TEST_F(FoldPadding, KernelsTakeTheirEndFromTheOutput) {
  const ValueId x = g.input({1, 1, 8, 10});
  g.output(convolution(pad(x, {0, 1, 0, 1}), g.weight({1, 1, 3, 3})));
  g.output(convolution(pad(x, {1, 2, 3, 0}), g.graph.weights[0]));
  const auto device = open_device("");
  const EngineSpec spec = compile(g.graph, Settings{}, profile(*device));
  for (const Dispatch& d : spec.dispatches)
    EXPECT_EQ(d.name.find("constant_pad"), std::string::npos);
  const auto engine = Engine::create(device, spec);
  std::vector<float> xs(80), ones(9, 1.0f), first(4 * 5), second(5 * 6);
  for (size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i % 13) - 4;
  const auto host = [](std::vector<float>& v) {
    return HostTensor{v.data(), static_cast<int64_t>(v.size() * 4)};
  };
  const HostTensor weights[] = {host(ones)}, inputs[] = {host(xs)},
                   outputs[] = {host(first), host(second)};
  engine->run(*engine->prepare_weights(weights), {}, inputs, outputs);
  EXPECT_EQ(first, padded_sums(xs, 8, 10, 0, 0, 4, 5));
  EXPECT_EQ(second, padded_sums(xs, 8, 10, 3, 1, 5, 6));
}

}  // namespace
}  // namespace tv

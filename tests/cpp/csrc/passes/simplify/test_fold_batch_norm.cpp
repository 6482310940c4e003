// Batch norms folded into the convolutions before them.

#include <gtest/gtest.h>

#include <cmath>

#include "csrc/passes/simplify/canonicalise.h"
#include "csrc/passes/simplify/fold_batch_norm.h"
#include "csrc/passes/simplify/simplify.h"
#include "tests/cpp/kit/graph_builder.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphBuilder;
using test::Tensor;

/// Convolution (+ bias) and batch norm; the weights are leaves in this order: weight, bias, bn
/// weight, bn bias, mean, var.
struct BatchNormTest : testing::Test {
  GraphBuilder b;
  DType dtype = DType::kF32;
  bool transposed = false;
  const char* convolution = "aten::convolution";
  ValueId conv_out = kNoValue;

  Node& build(bool bias, bool affine,
              const char* bn = "aten::_native_batch_norm_legit_no_training") {
    const ValueId x = b.input({2, 3, 5, 5}, dtype);
    const ValueId weight = b.weight(transposed ? Shape{3, 2, 1, 1} : Shape{2, 3, 1, 1}, dtype);
    const auto channel = [&](bool there) { return there ? b.weight({2}, dtype) : kNoValue; };
    const ValueId conv_bias = channel(bias);
    conv_out =
        b.node(convolution,
               {tensor_arg("input", x), tensor_arg("weight", weight), tensor_arg("bias", conv_bias),
                attr_arg("transposed", transposed), attr_arg("groups", Expr(1))},
               {{dtype, {2, 2, 5, 5}}})
            .outputs[0];
    const ValueId gamma = channel(affine), beta = channel(affine), mean = channel(true),
                  var = channel(true);
    Node& node = b.node(
        bn,
        {tensor_arg("input", conv_out), tensor_arg("weight", gamma), tensor_arg("bias", beta),
         tensor_arg("running_mean", mean), tensor_arg("running_var", var),
         attr_arg("training", false), attr_arg("momentum", 0.1), attr_arg("eps", 0.25)},
        {{dtype, {2, 2, 5, 5}}, {dtype, {0}}, {dtype, {0}}});
    b.output(node.outputs[0]);
    return node;
  }

  Graph fold_it() {
    Graph out = simplify(fold_batch_norm(b.graph));
    check(out, "fold_batch_norm");
    return out;
  }

  static const Node* find(const Graph& graph, const std::string& op) {
    for (const Node& n : graph.nodes) {
      if (n.op == op) return &n;
    }
    return nullptr;
  }

  /// What the weight program gives for value `v`.
  static Tensor weight_value(Graph graph, ValueId v, const std::vector<Tensor>& leaves) {
    graph.outputs = {{v, "v", {}}};
    return test::evaluate(simplify(std::move(graph)), leaves)[0];
  }
};

constexpr double kScale0 = 2.0;   // gamma 3 / sqrt(2 + 1/4)
constexpr double kScale1 = -4.0;  // gamma -2 / sqrt(0 + 1/4)

TEST_F(BatchNormTest, FoldsIntoEveryConvolution) {
  for (const char* op : {"aten::conv1d", "aten::conv2d", "aten::conv3d"}) {
    b = {};
    convolution = op;
    build(/*bias=*/true, /*affine=*/true);
    const Graph out = fold_it();
    ASSERT_NE(find(out, op), nullptr);
    EXPECT_EQ(out.outputs[0].value, find(out, op)->outputs[0]) << op;
  }
}

TEST_F(BatchNormTest, FoldsIntoWeightAndBias) {
  build(true, true);
  const Graph out = fold_it();
  EXPECT_EQ(find(out, "aten::_native_batch_norm_legit_no_training"), nullptr);
  const Node* conv = find(out, "aten::convolution");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->outputs[0], out.outputs[0].value);
  EXPECT_EQ(conv->fused_ops,
            (std::vector<std::string>{"aten::convolution",
                                      "aten::_native_batch_norm_legit_no_training"}));
  // input, weight, bias, gamma, beta, mean, var
  const std::vector<Tensor> leaves = {
      Tensor(150, 0.0), {1, 2, 3, 4, 5, 6}, {10, 20}, {3, -2}, {0.5, 0.25}, {1, 2}, {2, 0}};
  EXPECT_EQ(weight_value(out, conv->input("weight"), leaves),
            (Tensor{1 * kScale0, 2 * kScale0, 3 * kScale0, 4 * kScale1, 5 * kScale1, 6 * kScale1}));
  EXPECT_EQ(weight_value(out, conv->input("bias"), leaves),
            (Tensor{0.5 + (10 - 1) * kScale0, 0.25 + (20 - 2) * kScale1}));
}

TEST_F(BatchNormTest, FoldsWithoutBiasAndWithoutAffine) {
  build(false, false);
  const Graph out = fold_it();
  const Node* conv = find(out, "aten::convolution");
  ASSERT_TRUE(conv && conv->has("bias"));
  // input, weight, mean, var
  const std::vector<Tensor> leaves = {Tensor(150, 0.0), {1, 2, 3, 4, 5, 6}, {1, 2}, {3.75, 0}};
  EXPECT_EQ(weight_value(out, conv->input("weight"), leaves), (Tensor{0.5, 1, 1.5, 8, 10, 12}));
  EXPECT_EQ(weight_value(out, conv->input("bias"), leaves), (Tensor{-0.5, -4}));
}

TEST_F(BatchNormTest, TransposedWeightsHaveTheirChannelsSecond) {
  transposed = true;
  build(false, false);
  const Graph out = fold_it();
  const Node* conv = find(out, "aten::convolution");
  const std::vector<Tensor> leaves = {Tensor(150, 0.0), {1, 2, 3, 4, 5, 6}, {1, 2}, {3.75, 0}};
  EXPECT_EQ(weight_value(out, conv->input("weight"), leaves), (Tensor{0.5, 4, 1.5, 8, 2.5, 12}));
}

TEST_F(BatchNormTest, OtherReadersOfTheConvolutionKeepIt) {
  build(true, true);
  b.output(b.work({conv_out}, {2, 2, 5, 5}));
  const Graph out = fold_it();
  const Node* conv = find(out, "aten::convolution");
  EXPECT_EQ(out.value(conv->input("weight")).kind, ValueKind::kWeight);
  EXPECT_EQ(out.nodes.back().op, "t::work");
}

TEST_F(BatchNormTest, HalfPrecisionKeepsItsWeights) {
  dtype = DType::kF16;
  build(true, true);
  const Graph out = fold_it();
  const Node* conv = find(out, "aten::convolution");
  EXPECT_EQ(out.value(conv->input("weight")).kind, ValueKind::kWeight);
  const Node& last = out.nodes.back();
  ASSERT_EQ(last.op, "tv::pointwise");
  EXPECT_EQ(last.inputs("inputs").at(0), conv->outputs[0]);
  EXPECT_EQ(last.program->inputs, (std::vector<DType>{DType::kF16, DType::kF32, DType::kF32}));
  EXPECT_EQ(out.value(out.outputs[0].value).dtype, DType::kF16);
}

TEST_F(BatchNormTest, WithoutAConvolutionItScalesAndShifts) {
  const ValueId x = b.input({1, 2, 2});
  const ValueId gamma = b.weight({2}), beta = b.weight({2}), mean = b.weight({2}),
                var = b.weight({2});
  b.output(b.node("aten::batch_norm",
                  {tensor_arg("input", x), tensor_arg("weight", gamma), tensor_arg("bias", beta),
                   tensor_arg("running_mean", mean), tensor_arg("running_var", var),
                   attr_arg("training", false), attr_arg("eps", 0.25)},
                  {{DType::kF32, {1, 2, 2}}})
               .outputs[0]);
  const Graph out = fold_it();
  EXPECT_EQ(test::evaluate(out, {{1, 2, 3, 4}, {3, -2}, {0.5, 0.25}, {1, 2}, {2, 0}})[0],
            (Tensor{0.5, 2.5, -3.75, -7.75}));
}

TEST_F(BatchNormTest, TrainingFormsAreLeft) {
  Node& node = build(true, true, "aten::native_batch_norm");
  for (Arg& a : node.args) {
    if (a.name == "training") a.attr = true;
  }
  EXPECT_FALSE(is_inference_batch_norm(node));
  EXPECT_NE(find(fold_it(), "aten::native_batch_norm"), nullptr);
}

TEST_F(BatchNormTest, SavedStatisticsOfInferenceStayEmptyTensors) {
  const Node& node = build(true, true);
  b.output(node.outputs[1]);
  const Graph out = fold_it();
  const Node* full = find(out, "aten::full");
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(out.outputs[1].value, full->outputs[0]);
}

}  // namespace
}  // namespace tv

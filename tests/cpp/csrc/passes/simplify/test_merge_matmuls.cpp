#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/compile/compile.h"
#include "csrc/passes/quantise/calibrate.h"
#include "csrc/passes/simplify/merge_matmuls.h"
#include "runtime/engine/engine.h"
#include "runtime/vulkan/device.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphMaker;

class MergeMatmuls : public testing::Test {
 protected:
  ValueId transposed(ValueId w) {
    const Shape shape = g.graph.value(w).shape;
    return g.op("aten::t", {tensor_arg("self", w)}, {shape[1], shape[0]});
  }

  /// x · transpose(w) + b
  ValueId addmm(ValueId x, ValueId w, ValueId b, double alpha = 1) {
    const ValueId mat2 = transposed(w);
    const ValueId out =
        g.op("aten::addmm",
             {tensor_arg("self", b), tensor_arg("mat1", x), tensor_arg("mat2", mat2),
              attr_arg("beta", Expr(1)), attr_arg("alpha", alpha)},
             {g.graph.value(x).shape[0], g.graph.value(w).shape[0]});
    g.graph.nodes.back().module_path = "attention.part" + std::to_string(g.graph.nodes.size());
    return out;
  }

  ValueId mm(ValueId x, ValueId mat2) {
    return g.op("aten::mm", {tensor_arg("self", x), tensor_arg("mat2", mat2)},
                {g.graph.value(x).shape[0], g.graph.value(mat2).shape[1]});
  }

  static int64_t count_op(const Graph& graph, const std::string& op) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [&](const Node& n) { return n.op == op; });
  }

  GraphMaker g;
};

TEST_F(MergeMatmuls, OneProductWithTheWeightsSideBySide) {
  const ValueId x = g.input({4, 3});
  g.output(addmm(x, g.weight({5, 3}), g.weight({5})));
  g.output(addmm(x, g.weight({2, 3}), g.weight({2})));
  const Graph after = merge_matmuls(g.graph);
  check(after, "merge_matmuls");
  EXPECT_EQ(count_op(after, "aten::addmm"), 1);
  EXPECT_EQ(count_op(after, "aten::slice.Tensor"), 2);
  const auto joined = std::find_if(after.nodes.begin(), after.nodes.end(),
                                   [](const Node& n) { return n.op == "aten::addmm"; });
  EXPECT_EQ(after.value(joined->outputs[0]).shape, (Shape{4, 7}));
  EXPECT_EQ(joined->fused_ops, (std::vector<std::string>{"aten::addmm", "aten::addmm"}));
  EXPECT_EQ(joined->module_path, "attention");
}

TEST_F(MergeMatmuls, WhatStaysApart) {
  const ValueId x = g.input({4, 3}), other = g.input({4, 3});
  g.output(addmm(x, g.weight({5, 3}), g.weight({5})));
  g.output(addmm(other, g.weight({5, 3}), g.weight({5})));  // another matrix
  g.output(addmm(x, g.input({5, 3}), g.weight({5})));       // not a weight
  g.output(addmm(x, g.weight({5, 3}), g.weight({4, 5})));   // not one bias a column
  g.output(addmm(x, g.weight({5, 3}), g.weight({5}), 0.5));
  g.output(mm(x, transposed(g.weight({5, 3}))));  // without a bias
  EXPECT_EQ(count_op(merge_matmuls(g.graph), "aten::addmm"), 5);
}

// A decoder's queries, for one: their first projections depend on weights alone.
TEST_F(MergeMatmuls, ProductsThatAreCalibratedAlike) {
  const ValueId x = g.input({4, 3});
  const auto product = [&](double scale, std::optional<double> largest = {}) {
    g.output(addmm(x, g.weight({5, 3}), g.weight({5})));
    Node& node = g.graph.nodes.back();
    node.input_scale = scale;
    if (largest) {
      node.args.push_back(attr_arg(kInputLargest, std::vector<double>(3, *largest)));
      node.args.push_back(attr_arg(kSmoothAlpha, 0.5));
    }
  };
  for (const double scale : {0.5, 0.5, 0.25, 0.0, 0.0}) product(scale);
  for (const double largest : {2.0, 2.0, 3.0}) product(0.5, largest);
  const Graph after = merge_calibrated(g.graph);
  check(after, "merge_calibrated");
  std::vector<std::pair<double, Expr>> found;  // scales, columns
  for (const Node& node : after.nodes) {
    if (node.op != "aten::addmm") continue;
    found.emplace_back(node.input_scale, after.value(node.outputs[0]).shape[1]);
    EXPECT_EQ(node.has(kSmoothAlpha), node.has(kInputLargest));
  }
  const std::vector<std::pair<double, Expr>> want = {{0.5, 10}, {0.25, 5}, {0, 5},
                                                     {0, 5},    {0.5, 10}, {0.5, 5}};
  EXPECT_EQ(found, want);
  EXPECT_EQ(count_op(merge_matmuls(g.graph), "aten::addmm"), 5);  // those without a scale, too
}

TEST_F(MergeMatmuls, ProductsOfConstantsStayWhereTheirWeightsAreMade) {
  const auto half = [&](ValueId w) {
    return g.op("aten::_to_copy", {tensor_arg("self", w)}, g.graph.value(w).shape);
  };
  const ValueId x = half(g.weight({4, 3}));
  g.output(addmm(x, half(g.weight({5, 3})), g.weight({5})));
  g.output(addmm(x, half(g.weight({2, 3})), g.weight({2})));
  const Graph after = merge_matmuls(g.graph);
  check(after, "merge_matmuls");
  EXPECT_EQ(count_op(after, "aten::addmm"), 2);
}

/// What an engine of a graph of one input computes.
std::vector<std::vector<float>> results_of(const Graph& graph,
                                           std::vector<std::vector<float>> leaves,
                                           const std::vector<size_t>& sizes) {
  const auto device = open_device("");
  const auto engine = Engine::create(device, compile(graph, Settings{}, profile(*device)));
  const auto host = [](std::vector<float>& v) {
    return HostTensor{v.data(), static_cast<int64_t>(v.size() * 4)};
  };
  std::vector<HostTensor> in = {host(leaves[0])}, weights, out;
  for (size_t i = 1; i < leaves.size(); ++i) weights.push_back(host(leaves[i]));
  std::vector<std::vector<float>> outputs;
  for (size_t n : sizes) outputs.emplace_back(n, -1.0f);
  for (auto& o : outputs) out.push_back(host(o));
  engine->run(*engine->prepare_weights(weights), {}, in, out);
  return outputs;
}

std::vector<std::vector<float>> random_leaves(const Graph& graph) {
  std::mt19937 random(5);
  std::vector<std::vector<float>> leaves;
  for (const test::Tensor& t : test::random_leaves(graph, random))
    leaves.emplace_back(t.begin(), t.end());
  return leaves;
}

/// [4, 3] · transpose([n, 3]), in small integers: exact.
float element(const std::vector<float>& x, const std::vector<float>& w, size_t r, size_t c) {
  float sum = 0;
  for (size_t k = 0; k < 3; ++k) sum += x[r * 3 + k] * w[c * 3 + k];
  return sum;
}

TEST_F(MergeMatmuls, ComputesTheSame) {
  const ValueId x = g.input({4, 3});
  const ValueId w[] = {g.weight({5, 3}), g.weight({2, 3})}, b[] = {g.weight({5}), g.weight({2})};
  for (int i = 0; i < 2; ++i) g.output(addmm(x, w[i], b[i]));
  for (int i = 0; i < 2; ++i) g.output(mm(x, transposed(w[i])));
  const auto leaves = random_leaves(g.graph);
  const auto outputs = results_of(g.graph, leaves, {20, 8, 20, 8});
  for (size_t o = 0; o < 4; ++o) {
    const auto &weight = leaves[1 + o % 2], &bias = leaves[3 + o % 2];
    for (size_t r = 0; r < 4; ++r) {
      for (size_t c = 0; c < bias.size(); ++c) {
        const float sum = element(leaves[0], weight, r, c) + (o < 2 ? bias[c] : 0);
        ASSERT_EQ(outputs[o][r * bias.size() + c], sum) << "output " << o;
      }
    }
  }
}

TEST_F(MergeMatmuls, WhatIsComputedFromWeightsIsAWeight) {
  const auto negated = [&](ValueId w) {
    return g.op("aten::neg", {tensor_arg("self", w)}, g.graph.value(w).shape);
  };
  const ValueId x = g.input({4, 3});
  const ValueId w[] = {g.weight({5, 3}), g.weight({2, 3})}, b[] = {g.weight({5}), g.weight({2})};
  // Each is computed after the first product, where the joined one stands.
  for (int i = 0; i < 2; ++i) g.output(addmm(x, negated(w[i]), negated(b[i])));
  for (int i = 0; i < 2; ++i) g.output(mm(x, negated(transposed(w[i]))));  // no transpose follows
  g.output(mm(x, negated(transposed(x))));                                 // not from weights
  const Graph after = merge_matmuls(g.graph);
  check(after, "merge_matmuls");
  EXPECT_EQ(count_op(after, "aten::addmm"), 1);
  EXPECT_EQ(count_op(after, "aten::mm"), 2);

  const auto leaves = random_leaves(g.graph);
  const auto outputs = results_of(g.graph, leaves, {20, 8, 20, 8, 16});
  for (size_t o = 0; o < 4; ++o) {
    const auto &weight = leaves[1 + o % 2], &bias = leaves[3 + o % 2];
    for (size_t r = 0; r < 4; ++r) {
      for (size_t c = 0; c < bias.size(); ++c) {
        const float sum = -element(leaves[0], weight, r, c) - (o < 2 ? bias[c] : 0);
        ASSERT_EQ(outputs[o][r * bias.size() + c], sum) << "output " << o;
      }
    }
  }
}

}  // namespace
}  // namespace tv

// Launches that read some rows of their weights alone (Step::looks_up).

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/compile/compile.h"
#include "runtime/spec/vke.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

/// An operator that takes rows of a weight, [37, 8], and a relu of them.
Graph looked_up(const std::string& op) {
  GraphBuilder b;
  const ValueId table = b.weight({37, 8}), index = b.input({5}, DType::kI64);
  std::vector<Arg> args;
  if (op == "aten::embedding") {
    args = {tensor_arg("weight", table), tensor_arg("indices", index)};
  } else if (op == "aten::index_select") {
    args = {tensor_arg("self", table), attr_arg("dim", Expr(0)), tensor_arg("index", index)};
  } else {
    const ValueId places = b.input({5, 8}, DType::kI64);
    args = {tensor_arg("self", table), attr_arg("dim", Expr(0)), tensor_arg("index", places)};
  }
  const ValueId rows = b.node(op, std::move(args), {{DType::kF32, {5, 8}}}).outputs[0];
  b.node("aten::relu", {tensor_arg("self", rows)}, {{DType::kF32, {5, 8}}});
  b.output(b.graph.nodes.back().outputs[0]);
  return b.graph;
}

bool looks_up(const EngineSpec& spec) {
  return std::ranges::any_of(spec.dispatches, &Dispatch::looks_up);
}

TEST(Lookups, TheConverterSaysSoAndFilesKeepIt) {
  for (const char* op : {"aten::embedding", "aten::index_select", "aten::gather"}) {
    const EngineSpec spec = compile(looked_up(op), {}, DeviceProfile::builtin_default());
    ASSERT_EQ(spec.dispatches.size(), 1U) << op;
    EXPECT_EQ(spec.dispatches[0].ops.size(), 2U) << "the relu is fused into it";
    EXPECT_TRUE(looks_up(spec)) << op;
    EXPECT_TRUE(looks_up(from_vke(to_vke(spec)).spec)) << op;
  }
}

TEST(Lookups, NamesDoNotMatter) {
  Graph graph = looked_up("aten::embedding");
  graph.nodes[0].fused_ops = {"aten::of_a_user"};
  EXPECT_TRUE(looks_up(compile(graph, {}, DeviceProfile::builtin_default())));
  GraphBuilder b;
  b.node("aten::mm", {tensor_arg("self", b.input({3, 8})), tensor_arg("mat2", b.weight({8, 5}))},
         {{DType::kF32, {3, 5}}})
      .fused_ops = {"aten::embedding"};
  b.output(b.graph.nodes.back().outputs[0]);
  const EngineSpec product = compile(b.graph, {}, DeviceProfile::builtin_default());
  EXPECT_EQ(product.dispatches.at(0).ops, (std::vector<std::string>{"aten::embedding"}));
  EXPECT_FALSE(looks_up(product));
}

}  // namespace
}  // namespace tv

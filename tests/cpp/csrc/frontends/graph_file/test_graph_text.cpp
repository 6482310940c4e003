#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/cache/canonical.h"
#include "csrc/converter.h"
#include "csrc/frontends/graph_file/graph_text.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

Graph again(const Graph& graph) {
  return graph_file::from_json(Json::parse(graph_file::to_json(graph).dump()));
}

bool made_by_frontends(const Graph& graph) {
  const auto is_view = [](const Value& v) { return v.view.has_value(); };
  const auto is_over = [](const GraphOutput& o) { return o.over != kNoValue; };
  if (std::ranges::any_of(graph.values, is_view) || std::ranges::any_of(graph.outputs, is_over)) {
    return false;
  }
  return std::ranges::none_of(graph.nodes, [](const Node& n) {
    return n.program || n.epilogue || n.prologue || n.input_scale != 0;
  });
}

TEST(GraphText, KeepsTheExamplesOfAllConverters) {
  size_t compared = 0;
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (!converter.examples) continue;
    for (const Graph& graph : converter.examples()) {
      if (!made_by_frontends(graph)) continue;
      SCOPED_TRACE(op);
      try {
        EXPECT_EQ(dump(again(graph)), dump(graph));
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 300u);
}

TEST(GraphText, KeepsWhichIntegersAreOfFourBits) {
  Graph graph;
  for (const bool four_bits : {true, false}) {
    graph.weights.push_back(graph.add_value({.name = four_bits ? "q" : "w",
                                             .dtype = DType::kI8,
                                             .shape = {4, 4},
                                             .kind = ValueKind::kWeight,
                                             .four_bits = four_bits}));
    graph.outputs.push_back(
        {.value = graph.weights.back(), .name = "y" + graph.values.back().name});
  }
  const Graph read = again(graph);
  EXPECT_TRUE(read.values[0].four_bits);
  EXPECT_FALSE(read.values[1].four_bits);
  EXPECT_NE(canonical_form(read).text.find("of 4 bits"), std::string::npos) << "it is in the key";
  graph.values[0].dtype = DType::kU8;
  EXPECT_THROW(again(graph), Error);
}

TEST(GraphText, KeepsEveryKindOfArgument) {
  Graph graph;
  graph.name = "net";
  graph.symbols = {{"batch", 1, 8, 64}, {"rows", 0, 3, kUnbounded}};
  const Expr batch = Expr::symbol(0), rows = Expr::symbol(1);
  graph.conditions = {{Relation::kMultiple, batch * 6, 4, "here"},
                      {Relation::kAtLeast, rows, floordiv(batch, 2), ""}};
  graph.inputs = {graph.add_value(
      {.name = "x", .dtype = DType::kF16, .shape = {batch, rows}, .kind = ValueKind::kInput})};
  graph.weights = {graph.add_value(
      {.name = "w", .dtype = DType::kI8, .shape = {3}, .kind = ValueKind::kWeight})};
  Node node{.op = "some::thing", .name = "thing"};
  node.args = {tensor_arg("a", 0),
               tensor_arg("none", kNoValue),
               tensor_list_arg("list", {1, kNoValue}),
               attr_arg("null", {}),
               attr_arg("bool", true),
               attr_arg("int", batch * 2 + 1),
               attr_arg("big", Expr(int64_t{1} << 62)),
               attr_arg("float", 0.1),
               attr_arg("inf", -std::numeric_limits<double>::infinity()),
               attr_arg("text", std::string("é\"")),
               attr_arg("dtype", DType::kBF16),
               attr_arg("ints", std::vector<Expr>{rows, -1}),
               attr_arg("floats", std::vector<double>{1, 1e-300}),
               attr_arg("bools", std::vector<bool>{true, false}),
               attr_arg("empty", std::vector<double>{})};
  node.source = "net.py:4";
  node.module_path = "head.0";
  graph.add_output(node, DType::kF32, {batch});
  node.outputs.push_back(kNoValue);
  graph.nodes.push_back(std::move(node));
  graph.outputs = {{.value = 2, .name = "y", .strides = {rows}}};
  const Graph read = again(graph);
  EXPECT_EQ(dump(read), dump(graph));
  EXPECT_EQ(signature(read.nodes[0]), signature(graph.nodes[0]));
  EXPECT_EQ(read.symbols, graph.symbols);
  EXPECT_EQ(read.conditions, graph.conditions);
  EXPECT_EQ(read.nodes[0].source, "net.py:4");
  EXPECT_EQ(read.nodes[0].module_path, "head.0");
  EXPECT_EQ(read.outputs[0].strides, graph.outputs[0].strides);
}

TEST(GraphText, ConditionsOnNodesBecomeTheGraphs) {
  Graph graph;
  graph.symbols = {{"n", 1, 8, 64}};
  graph.inputs = {graph.add_value(
      {.name = "x", .dtype = DType::kF32, .shape = {Expr::symbol(0)}, .kind = ValueKind::kInput})};
  Node node{.op = "aten::relu", .name = "relu", .args = {tensor_arg("self", 0)}};
  node.origin.demands = {{Relation::kMultiple, Expr::symbol(0), 4, "relu"}};
  graph.add_output(node, DType::kF32, {Expr::symbol(0)});
  graph.nodes.push_back(std::move(node));
  graph.outputs = {{.value = 1, .name = "y"}};
  EXPECT_EQ(again(graph).conditions, graph.nodes[0].origin.demands);
}

}  // namespace
}  // namespace tv

// What the tuner is told of a node.

#include <gtest/gtest.h>

#include <set>

#include "csrc/compile/compile.h"
#include "csrc/converter.h"
#include "csrc/cost_model.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

/// Takes the rule's choices and notes how often each node rounds to 16 bits on its way.
class Roundings : public CostModel {
 public:
  TacticChoice choose(const TacticProblem& problem, size_t rule, const Progress&) override {
    found[problem.op] = problem.roundings;
    return {.candidate = rule};
  }
  std::map<std::string, std::vector<DType>> found;
};

std::vector<DType> roundings(Graph graph) {
  Roundings costs;
  const std::string op = graph.nodes.at(0).op;
  compile(std::move(graph), {}, DeviceProfile::builtin_default(), nullptr, &costs);
  return costs.found.at(op);
}

/// gate * up, by instructions that give 16 bits or not, of the two halves of one product.
Graph gated(DType product, DType result) {
  PointwiseProgram program{.inputs = {DType::kF32, DType::kF32}};
  program.instrs = {{.function = "silu", .operands = {0}, .result = product},
                    {.function = "mul", .operands = {2, 1}, .result = result}};
  program.results = {3};
  for (Graph graph : Registry::instance().find("tv::matmul_rows")->examples()) {
    Node& node = graph.nodes.at(0);
    if (!node.program || graph.value(node.outputs[0]).dtype != DType::kBF16) continue;
    node.program = std::make_shared<const PointwiseProgram>(program);
    return graph;
  }
  throw std::logic_error("matmul_rows has no example with a gate");
}

TEST(TacticProblem, TellsWhereAGateRoundsToSixteenBits) {
  using Found = std::vector<DType>;
  EXPECT_EQ(roundings(gated(DType::kF32, DType::kF32)), Found{});
  EXPECT_EQ(roundings(gated(DType::kBF16, DType::kF32)), Found{DType::kBF16});
  EXPECT_EQ(roundings(gated(DType::kBF16, DType::kBF16)), (Found{DType::kBF16, DType::kBF16}));
}

/// Takes the rule's choices and notes the problems.
class Problems : public CostModel {
 public:
  TacticChoice choose(const TacticProblem& problem, size_t rule, const Progress&) override {
    found.insert(problem.text);
    return {.candidate = rule};
  }
  std::set<std::string> found;
};

/// Problems of one product after another, each of whose results is multiplied by a number.
size_t problems_of(const std::vector<double>& factors) {
  test::GraphBuilder b;
  ValueId x = b.input({8, 8});
  for (const double factor : factors) {
    x = b.node("aten::mm", {tensor_arg("self", x), tensor_arg("mat2", b.weight({8, 8}))},
               {{DType::kF32, {8, 8}}})
            .outputs.at(0);
    x = b.node("aten::mul.Scalar", {tensor_arg("self", x), attr_arg("other", factor)},
               {{DType::kF32, {8, 8}}})
            .outputs.at(0);
    x = b.node("aten::relu", {tensor_arg("self", x)}, {{DType::kF32, {8, 8}}}).outputs.at(0);
  }
  b.output(x);
  Problems costs;
  compile(std::move(b.graph), {}, DeviceProfile::builtin_default(), nullptr, &costs);
  return costs.found.size();
}

TEST(TacticProblem, LayersThatDifferInTheirScalesAreOne) {
  const size_t one = problems_of({0.37, 0.37, 0.37});
  EXPECT_EQ(problems_of({0.37, 1.21, 12.5}), one);
  EXPECT_GT(problems_of({0.37, 1.21, 2}), one) << "whole numbers may be computed otherwise";
}

}  // namespace
}  // namespace tv

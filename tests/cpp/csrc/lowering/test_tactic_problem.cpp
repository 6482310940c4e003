// What the tuner is told of a node.

#include <gtest/gtest.h>

#include "csrc/compile/compile.h"
#include "csrc/converter.h"
#include "csrc/cost_model.h"

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

}  // namespace
}  // namespace tv

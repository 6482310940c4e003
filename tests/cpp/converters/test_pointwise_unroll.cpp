// How many copies of a pointwise program a kernel for CPU drivers holds.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "converters/pointwise/cpu_unroll.h"
#include "csrc/builder.h"
#include "csrc/converter.h"
#include "csrc/lowering/tactics.h"

namespace tv {
namespace {

/// -in0, `count` times.
PointwiseProgram chain(int count) {
  PointwiseProgram program;
  program.inputs = {DType::kF32};
  for (int i = 0; i < count; ++i) {
    program.instrs.push_back({.function = "neg", .operands = {i}, .scalars = {}, .integers = {}});
  }
  program.results = {count};
  return program;
}

TEST(CpuUnroll, IsAPowerOfTwoThatALongProgramMakesSmaller) {
  EXPECT_EQ(cpu_unroll(chain(0)), 32u);
  EXPECT_EQ(cpu_unroll(chain(30)), 32u);  // 32 with an input and a result: the last one whole
  EXPECT_EQ(cpu_unroll(chain(31)), 16u);
  EXPECT_EQ(cpu_unroll(chain(62)), 16u);
  EXPECT_EQ(cpu_unroll(chain(63)), 8u);
  EXPECT_EQ(cpu_unroll(chain(254)), 4u);
  EXPECT_EQ(cpu_unroll(chain(255)), 2u);
  EXPECT_EQ(cpu_unroll(chain(510)), 2u);
  EXPECT_EQ(cpu_unroll(chain(511)), 1u);
  EXPECT_EQ(cpu_unroll(chain(5000)), 1u);
}

DeviceProfile cpu_profile() {
  DeviceProfile p = DeviceProfile::builtin_default();
  p.type = DeviceType::kCpu;
  p.subgroup_size = p.min_subgroup_size = p.max_subgroup_size = 8;
  p.host_pointers = true;
  return p;
}

/// Copies of the program in the kernel of each tactic that a CPU takes.
std::map<std::string, int64_t> copies(int length, const DeviceProfile& device) {
  Graph graph{.name = "chain"};
  const Shape shape = {64, 64};
  const ValueId in = graph.add_value(
      {.name = "in", .dtype = DType::kF32, .shape = shape, .kind = ValueKind::kInput, .view = {}});
  graph.inputs = {in};
  Node node;
  node.op = "tv::pointwise";
  node.name = "chain";
  node.args = {tensor_list_arg("inputs", {in})};
  node.program = std::make_shared<const PointwiseProgram>(chain(length));
  const ValueId out = graph.add_output(node, DType::kF32, shape);
  graph.nodes.push_back(std::move(node));
  graph.outputs = {{.value = out, .name = "out", .strides = {}}};
  ValueTable table(graph);
  std::map<std::string, int64_t> found;
  for (const Tactic& tactic : convert_node(graph.nodes[0], table, device, {}).candidates) {
    if (!tactic.refusal.empty()) continue;
    const auto [name, count] = tactic.steps.at(0).defines.at(0);
    found[tactic.name] =
        std::stoll(count) * (name == "RUNS" ? 2 : 1) * (tactic.name == "pointwise_vec4" ? 4 : 1);
  }
  return found;
}

TEST(CpuUnroll, KernelsOfShortProgramsHold32Copies) {
  const auto found = copies(3, cpu_profile());
  EXPECT_EQ(found.at("pointwise_scalar"), 32);
  EXPECT_EQ(found.at("pointwise_vec4"), 32);
  EXPECT_EQ(found.at("pointwise_simd"), 32);
}

TEST(CpuUnroll, KernelsOfLongProgramsHoldFewCopies) {
  for (const int length : {31, 100, 254, 255, 400, 600, 3000}) {
    const auto found = copies(length, cpu_profile());
    EXPECT_TRUE(found.contains("pointwise_scalar"));
    EXPECT_EQ(found.contains("pointwise_vec4"), length <= 254) << length;
    EXPECT_EQ(found.contains("pointwise_simd"), length <= 510) << length;
    for (const auto& [name, count] : found) {
      EXPECT_LE(count, std::max(1, 1024 / (length + 2))) << name << ", " << length;
    }
  }
}

}  // namespace
}  // namespace tv

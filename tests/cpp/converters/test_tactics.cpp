// Every tactic of every operator gives on its examples what the last one, the plain reference
// kernel, gives: all of them on the device itself, and on a CPU driver those of a GPU with its
// features too. Examples take turns, by the seed, where an operator has many.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "csrc/converter.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/rotation.h"
#include "tests/cpp/kit/sample_graphs.h"
#include "tests/cpp/kit/seed.h"
#include "workloads/tactic_run.h"

namespace tv::test {
namespace {

double limit_of(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.dtype == DType::kBF16) return 2e-2;
    if (value.dtype == DType::kF16) return 3e-3;
  }
  return 2e-6;
}

/// Standard deviation of the inputs: bytes that are multiplied as such shall have all their bits.
double spread_of(const Graph& graph) {
  const std::string& op = graph.nodes.at(0).op;
  // Of floats float16 has to hold the sums, and products of two.
  const bool half = graph.value(graph.inputs.at(0)).dtype == DType::kF16;
  const bool packed = op.ends_with("_quantised") || op.ends_with("_sparse");
  if (op == "tv::recurrent" || op == "tv::lstm")
    return 0.1;  // rounding grows from step to step with larger weights
  if (op.ends_with("_rows") || (packed && half)) return 2;
  return op.ends_with("_integer") || packed ? 25 : 1;
}

void check_tactics(const Graph& graph, const std::shared_ptr<Device>& device,
                   const DeviceProfile& profile, int64_t& compared) {
  TacticRun run(graph, device, profile, spread_of(graph));
  const auto tactics = run.tactics();
  const auto wanted = run.outputs(tactics.back().name);
  for (size_t t = 0; t + 1 < tactics.size(); ++t) {
    if (!tactics[t].refusal.empty()) continue;
    const auto got = run.outputs(tactics[t].name);
    for (size_t k = 0; k < wanted.size(); ++k) {
      EXPECT_LE(largest_error(got[k], wanted[k]), limit_of(graph))
          << tactics[t].name << ", output " << k;
    }
    ++compared;
  }
}

/// Whether some example has several tactics that a device with this profile may take.
bool offers_several(const std::vector<Graph>& examples, const DeviceProfile& profile) {
  return std::ranges::any_of(examples, [&](const Graph& graph) {
    const auto all = tactics_of(graph, graph.nodes.at(0), {}, profile);
    return std::ranges::count(all, "", &CandidateTactic::refusal) > 1;
  });
}

class Tactics : public testing::TestWithParam<std::string> {};

TEST_P(Tactics, AgreeWithTheReference) {
  const auto device = open_device("");
  const DeviceProfile own = profile(*device);
  std::vector<DeviceProfile> profiles = {own};
  if (own.is_cpu()) {
    profiles.push_back(own);
    profiles.back().type = DeviceType::kDiscrete;
  }
  // Workgroups that take tile after tile are offered where there are many tiles for the device.
  profiles.push_back(profiles.back());
  profiles.back().compute_units = 1;
  const std::vector<Graph> examples = Registry::instance().find(GetParam())->examples();
  // Those of operators with many take turns.
  const Turns met =
      turns(examples.size(), std::max<size_t>(4, examples.size() / 3), examples.size());
  int64_t compared = 0;
  size_t runs = 0;
  for (const size_t example : met.order) {
    if (runs++ >= met.most && compared > 0) break;
    for (const DeviceProfile& p : profiles) {
      SCOPED_TRACE((p.is_cpu() ? "CPU" : "GPU") + std::string(", example ") +
                   std::to_string(example) + "; " + seed_text());
      check_tactics(examples[example], device, p, compared);
    }
  }
  if (compared == 0 && std::ranges::none_of(profiles, [&](const DeviceProfile& p) {
        return offers_several(examples, p);
      })) {
    // On a CPU driver both kinds of device are asked, so that nothing is left out everywhere.
    ASSERT_FALSE(own.is_cpu());
    GTEST_SKIP() << "all but one of its tactics are for CPU drivers";
  }
  EXPECT_GT(compared, 0) << "no example has two tactics";
}

std::string label(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

/// Operators of which some example has several tactics. Products and convolutions have hundreds:
/// test_gemm.cpp and test_convolution.cpp.
std::vector<std::string> operators() {
  std::vector<std::string> found;
  for (const auto& [op, converter] : operators_with_examples()) {
    if (!converter.convert || op.starts_with("test::")) continue;
    if (op == "tv::matmul" || op == "aten::convolution") continue;
    const std::vector<Graph> examples = converter.examples();
    const auto has_several = [](const Graph& graph) {
      return tactics_of(graph, graph.nodes.at(0), {}, DeviceProfile::builtin_default()).size() > 1;
    };
    if (std::ranges::any_of(examples, has_several)) found.emplace_back(op);
  }
  return found;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Tactics);  // TV_TEST_OP's may have one tactic
INSTANTIATE_TEST_SUITE_P(Operators, Tactics, testing::ValuesIn(operators()), label);

}  // namespace
}  // namespace tv::test

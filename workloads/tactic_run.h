#pragma once
// Graphs of one node, run by each of their tactics on the same numbers: for tests and
// benchmarks/native.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/vulkan/device.h"
#include "workloads/tactic_tools.h"

namespace tv::test {

class TacticRun {
 public:
  /// Inputs are normal numbers times `spread`; integers and bools 0 or 1, but those of 8 bits the
  /// nearest to such a number, wrapped, where `spread` is above 1.
  TacticRun(Graph graph, std::shared_ptr<Device> device, DeviceProfile profile, double spread = 1);

  /// Input `k` in place of that.
  void set_input(size_t k, std::vector<uint8_t> bytes) { in_.at(k) = std::move(bytes); }

  std::vector<CandidateTactic> tactics() const;
  /// Every output of one run with this tactic; what is not written is NaN.
  std::vector<std::vector<double>> outputs(const std::string& tactic);
  /// The same of another way to run an engine.
  std::vector<std::vector<double>> outputs(const EngineSpec& spec, const TensorCall& call);
  /// Microseconds of its dispatches, each sequence waiting for the one before.
  double time_us(const std::string& tactic);
  /// The inputs as numbers.
  std::vector<std::vector<double>> inputs() const;

 private:
  EngineSpec compiled(const std::string& tactic) const;
  int64_t count_of(const Binding& binding) const;

  Graph graph_;
  std::shared_ptr<Device> device_;
  DeviceProfile profile_;
  std::vector<int64_t> symbols_;
  std::vector<std::vector<uint8_t>> in_;
};

/// max |a - b| / max |b|; infinite where one is NaN and the other not.
double largest_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tv::test

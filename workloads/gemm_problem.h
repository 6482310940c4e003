#pragma once
// One product of matrices with numbers in it, run by each tactic and compared with float64: for
// tests and for benchmarks/native.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "runtime/vulkan/device.h"
#include "workloads/tactic_tools.h"

namespace tv::test {

/// y[z] = gelu?(a[z] · b[z] + bias?), where b may be one matrix for all of the batch.
struct GemmProblem {
  int64_t batch = 1, m = 64, n = 64, k = 64;
  DType dtype = DType::kF16;
  bool a_transposed = false;  ///< a is stored [k, m]
  bool b_transposed = false;  ///< b is stored [n, k]
  bool constant_b = true;     ///< a weight, else an input
  bool shared_b = true;       ///< one b for the whole batch
  bool epilogue = false;      ///< bias of n, then gelu
  /// How numbers are drawn: normal, normal + `positive`, times 2 to the power of ±`spread` at most.
  double positive = 0;
  int spread = 0;

  double flops() const { return 2.0 * static_cast<double>(batch * m * n) * static_cast<double>(k); }
  std::string str() const;
  Graph graph() const;
};

/// Tactics that a device offers for a problem, with the reason where one does not apply.
std::vector<CandidateTactic> candidate_tactics(const GemmProblem& problem, const Settings& settings,
                                               const DeviceProfile& profile);

/// The numbers of a problem as the device stores them.
class GemmData {
 public:
  explicit GemmData(const GemmProblem& problem, uint32_t seed = 1);

  struct Errors {
    double largest = 0;   ///< max |out - ref| / max |ref|
    double norm = 0;      ///< ‖out - ref‖ / ‖ref‖
    double products = 0;  ///< max |out - ref| / Σ|a||b|
  };
  /// Runs the engine once and compares up to `samples` outputs with float64. An output that is not
  /// written, or not finite, makes the errors infinite.
  Errors run(const std::shared_ptr<Engine>& engine, int64_t samples = INT64_MAX);
  /// The same by other means than an engine's run.
  Errors run(const TensorCall& call, int64_t samples = INT64_MAX);

  /// ‖sum - ref‖ / ‖ref‖ over every output of sums made in float32, one product after the other.
  double plain_error() const;

  /// Microseconds of the dispatches of `spec`, each sequence waiting for the one before it.
  double time_us(const std::shared_ptr<Device>& device, const EngineSpec& spec);

  /// Sets one element of a (z, m, k) or b (z, k, n), for values that need care.
  void set_a(int64_t z, int64_t m, int64_t k, float value);
  void set_b(int64_t z, int64_t k, int64_t n, float value);
  /// The output as the last run left it.
  double output(int64_t z, int64_t m, int64_t n) const;

 private:
  struct Reference {
    double value = 0, products = 0;
  };
  Reference reference(int64_t index) const;
  int64_t a_index(int64_t z, int64_t m, int64_t k) const;
  int64_t b_index(int64_t z, int64_t k, int64_t n) const;
  double element(const std::vector<uint8_t>& bytes, int64_t index) const;
  std::vector<HostTensor> inputs();
  std::vector<HostTensor> weights();

  GemmProblem p_;
  std::vector<uint8_t> a_, b_, bias_, y_;
};

}  // namespace tv::test

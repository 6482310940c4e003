#pragma once
// One convolution with numbers in it, run by each tactic and compared with float64: for tests and
// for benchmarks/native.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "runtime/vulkan/device.h"
#include "workloads/tactic_tools.h"

namespace tv::test {

/// y = relu?(silu?(conv(x, w) + bias? + residual?)), two dimensions, or three where kd is not 0,
/// one stride, pad and dilation for all.
struct ConvProblem {
  int64_t n = 1, ic = 64, h = 14, w = 14, oc = 64, kh = 3, kw = 3;
  int64_t stride = 1, pad = 1, dilation = 1, groups = 1;
  int64_t d = 1, kd = 0;
  DType dtype = DType::kF32;
  bool bias = true, residual = false, relu = false, silu = false;
  bool constant_weight = true;  ///< else the weight is an input
  bool last = false;            ///< the channels of a pixel of x are neighbours
  bool y_last = false;          ///< those of a pixel of y
  double positive = 0;          ///< added to every number, so that sums grow with their length
  int spread = 0;               ///< every number times a power of two, up to 2^spread either way

  int64_t out(int64_t size, int64_t window) const {
    return (size + 2 * pad - dilation * (window - 1) - 1) / stride + 1;
  }
  int64_t od() const { return kd != 0 ? out(d, kd) : 1; }
  int64_t oh() const { return out(h, kh); }
  int64_t ow() const { return out(w, kw); }
  int64_t taps() const { return (kd != 0 ? kd : 1) * kh * kw; }
  int64_t k() const { return ic / groups * taps(); }
  int64_t outputs() const { return n * oc * od() * oh() * ow(); }
  double flops() const { return 2.0 * static_cast<double>(outputs() * k()); }
  std::string str() const;
  Graph graph() const;
};

/// Tactics that a device offers for a problem, with the reason where one does not apply.
std::vector<CandidateTactic> candidate_tactics(const ConvProblem& problem, const Settings& settings,
                                               const DeviceProfile& profile);

/// A tactic's engine, or why there is none.
struct Candidate {
  std::string name, problem;
  bool failed = false;  ///< `problem` is an error and not a refusal
  EngineSpec spec;
  std::shared_ptr<Engine> engine;
};
/// Engines of the tactics whose names begin with one of `prefixes` (none: of all), the `first`
/// of those that apply, made in parallel: drivers take seconds for large kernels.
std::vector<Candidate> candidates(const ConvProblem& problem, const std::shared_ptr<Device>& device,
                                  const Settings& settings, const DeviceProfile& profile,
                                  const std::vector<std::string>& prefixes = {},
                                  size_t first = SIZE_MAX);

/// The text of every kernel of every tactic that the converter describes, whether or not it applies
/// to this glslang: name of the tactic and number of the step.
std::vector<std::pair<std::string, std::string>> kernel_texts(const ConvProblem& problem,
                                                              const Settings& settings,
                                                              const DeviceProfile& profile);

/// The numbers of a problem as the device stores them.
class ConvData {
 public:
  explicit ConvData(const ConvProblem& problem, uint32_t seed = 1);

  struct Errors {
    double largest = 0;   ///< max |out - ref| / max |ref|
    double norm = 0;      ///< ‖out - ref‖ / ‖ref‖
    double of_terms = 0;  ///< max |out - ref| / (sum of the sizes of its terms)
    int64_t samples = 0;
  };
  /// Runs the engine once and compares up to `samples` outputs with float64.
  Errors run(const std::shared_ptr<Engine>& engine, int64_t samples = INT64_MAX);
  /// The same by other means than an engine's run.
  Errors run(const TensorCall& call, int64_t samples = INT64_MAX);

  /// Sets one number of the input.
  void set_x(int64_t n, int64_t c, int64_t h, int64_t w, float value);  ///< in two dimensions
  /// Runs the engine once: outputs that are not finite.
  int64_t not_finite(const std::shared_ptr<Engine>& engine);
  int64_t not_finite(const TensorCall& call);

  /// ‖sum - ref‖ / ‖ref‖ over every output of sums made in float32, one product after the other.
  double plain_error() const;

  /// Microseconds of the dispatches of `spec`, each sequence waiting for the one before it.
  double time_us(const std::shared_ptr<Device>& device, const EngineSpec& spec);

 private:
  void call(const TensorCall& call);
  double reference(int64_t index) const { return sum_of<double>(index); }
  /// kSizes: of the terms' sizes.
  template <typename T, bool kSizes = false>
  T sum_of(int64_t index) const;
  struct Place {
    int64_t d, h, w;
  };
  int64_t x_index(int64_t n, int64_t c, Place at) const;
  /// Where output `index`, counted by planes, is stored.
  int64_t y_index(int64_t index) const;
  double element(const std::vector<uint8_t>& bytes, int64_t index) const;
  std::vector<HostTensor> inputs();
  std::vector<HostTensor> weights();

  ConvProblem p_;
  std::vector<uint8_t> x_, w_, bias_, residual_, y_;
};

}  // namespace tv::test

#pragma once
// Where candidates are measured: the device in earnest, a table in tests.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "csrc/cost_model.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// The candidates of one problem on memory that holds its operands. A call may throw
/// Error(kDevice); Bench::recover says whether the device was lost.
class BenchTrials {
 public:
  virtual ~BenchTrials() = default;
  /// Compiles candidates, several at a time: each → why the driver refuses it, for those refused.
  virtual std::map<size_t, std::string> prepare(const std::vector<size_t>& candidates) = 0;
  /// Runs the weight program and a part of each launch: an upper estimate of a run's time in µs.
  virtual double predict_us(size_t candidate) = 0;
  /// µs of one of `times` runs one after the other.
  virtual double time_us(size_t candidate, int times) = 0;
  /// µs of each launch by itself.
  virtual std::vector<float> step_us(size_t candidate) = 0;
  /// Timings that the device had other work beside, each time they were made.
  virtual uint64_t disturbed() const { return 0; }
  /// How the results of a candidate differ from those of the reference beyond what rounding
  /// explains, at the smallest, the typical and the largest shapes; "" if they do not; nothing
  /// if the reference takes too long to be run.
  virtual std::optional<std::string> difference(size_t candidate, size_t reference) = 0;
};

class Bench {
 public:
  virtual ~Bench() = default;
  virtual const DeviceProfile& profile() const = 0;
  /// Throws OutOfMemoryError if the operands do not fit. The problem must outlive the trials.
  virtual std::unique_ptr<BenchTrials> open(const TacticProblem& problem,
                                            std::map<size_t, TacticProgram> programs) = 0;
  /// True if the device was lost and has been opened anew: open trials are void.
  virtual bool recover() = 0;
};

}  // namespace tv

#pragma once
// Runs an engine again and again and takes the time.

#include <vector>

#include "csrc/cli/flags/options.h"
#include "csrc/cli/models/inputs.h"
#include "runtime/engine/timed_calls.h"

namespace tv::cli {

/// One call, on the clock of all streams.
struct TimedCall {
  size_t stream = 0;
  double start_ms = 0;  ///< since the measurement began
  CallTimes times;
};

struct BenchResult {
  std::vector<TimedCall> calls;  ///< in the order in which they began
  double wall_ms = 0;            ///< from the first start to the last end
  double first_call_ms = 0;      ///< the first of all, which records the commands
  int64_t warm_up_calls = 0;
  bool device_clock = false;
  std::vector<Tensor> outputs;  ///< of the last call of the first stream
};

/// Warms up, then runs until options.iterations calls were made and options.duration_s has passed,
/// on options.streams threads with an execution context and tensors of their own.
BenchResult run_bench(const RunInputs& inputs, const Options& options);

}  // namespace tv::cli

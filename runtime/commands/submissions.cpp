#include "runtime/commands/submissions.h"

#include <algorithm>

namespace tv {
namespace {

// Watchdogs wait for 0.6 s (Intel's preemption) to 10 s; predictions may be far off.
constexpr double kLimitUs = 100e3;
constexpr double kLaunchUs = 20, kBytesPerUs = 10e3;  // of a slow integrated GPU

double operand_bytes(const Dispatch& dispatch, std::span<const int64_t> symbols) {
  double bytes = 0;
  for (const OperandRange& operand : dispatch.operands) {
    bytes += static_cast<double>(std::max<int64_t>(operand.size_bytes.eval(symbols), 0));
  }
  return bytes;
}

}  // namespace

double submission_limit_us(const DeviceProfile& profile, const DebugModes& modes) {
  if (modes.submit_us >= 0) return static_cast<double>(modes.submit_us);
  return profile.is_cpu() ? 0 : kLimitUs;
}

double predicted_us(const EngineSpec& spec, const Dispatch& dispatch,
                    std::span<const int64_t> symbols) {
  const double bytes = operand_bytes(dispatch, symbols);
  if (dispatch.time_us <= 0) return kLaunchUs + bytes / kBytesPerUs;
  std::vector<int64_t> typical;
  for (const Symbol& symbol : spec.symbols) typical.push_back(symbol.opt);
  const double measured_bytes = std::max(operand_bytes(dispatch, typical), 1.0);
  return static_cast<double>(dispatch.time_us) * std::max(1.0, bytes / measured_bytes);
}

std::vector<size_t> submission_starts(const EngineSpec& spec, const EncodedProgram& program,
                                      std::span<const int64_t> symbols, double limit_us) {
  std::vector<size_t> starts;
  if (limit_us <= 0) return starts;
  double total_us = 0;
  for (size_t i = 0; i < program.dispatches.size(); ++i) {
    const double us = predicted_us(spec, spec.dispatches[program.dispatches[i].dispatch], symbols);
    if (i > 0 && total_us + us > limit_us) {
      starts.push_back(i);
      total_us = 0;
    }
    total_us += us;
  }
  return starts;
}

}  // namespace tv

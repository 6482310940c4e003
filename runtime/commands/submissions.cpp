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
                                      std::span<const int64_t> symbols, double limit_us,
                                      uint32_t times) {
  std::vector<size_t> starts;
  if (limit_us <= 0) return starts;
  double total_us = 0;
  const size_t count = program.dispatches.size();
  std::vector<double> predicted;
  for (const EncodedDispatch& d : program.dispatches) {
    predicted.push_back(predicted_us(spec, spec.dispatches[d.dispatch], symbols));
  }
  for (size_t i = 0; i < count * times; ++i) {
    const double us = predicted[i % count];
    if (i > 0 && total_us + us > limit_us) {
      starts.push_back(i);
      total_us = 0;
    }
    total_us += us;
  }
  return starts;
}

std::vector<size_t> merged_starts(std::vector<size_t> starts, std::span<const size_t> also,
                                  size_t count, uint32_t times) {
  for (size_t run = 0; run < times; ++run) {
    for (const size_t start : also) {
      if (run + start > 0) starts.push_back(run * count + start);
    }
  }
  std::ranges::sort(starts);
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

std::vector<DispatchRange> recorded_ranges(size_t count, uint32_t times,
                                           std::span<const size_t> starts) {
  std::vector<DispatchRange> ranges;
  auto cut = starts.begin();
  for (uint32_t run = 0; run < times; ++run) {
    const size_t before = run * count;
    for (size_t first = 0; first < count;) {
      const bool cuts = cut != starts.end() && *cut == before + first;
      if (cuts) ++cut;
      const size_t end = cut == starts.end() ? count : std::min(*cut - before, count);
      ranges.push_back({.first = first, .end = end, .next_submission = cuts});
      first = end;
    }
  }
  return ranges;
}

}  // namespace tv

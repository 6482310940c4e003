#pragma once
// Long engines are submitted in parts, so that no watchdog of the system, which measures the time
// of one submission, resets the device.

#include <vector>

#include "runtime/commands/recorder.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Microseconds that one submission may be predicted to take; 0: any time. A CPU driver has no
/// watchdog. DebugModes::submit_us goes before.
double submission_limit_us(const DeviceProfile& profile, const DebugModes& modes);

/// Microseconds that a dispatch takes at `symbols`: as the tuner measured it, scaled by the bytes
/// that its operands have gained since, or else guessed from the bytes.
double predicted_us(const EngineSpec& spec, const Dispatch& dispatch,
                    std::span<const int64_t> symbols);

/// Indices into `program.dispatches`, counted on over `times` runs of them, that begin another
/// submission, in ascending order. A pure function; a dispatch that alone takes longer than
/// `limit_us` has a submission of its own.
std::vector<size_t> submission_starts(const EngineSpec& spec, const EncodedProgram& program,
                                      std::span<const int64_t> symbols, double limit_us,
                                      uint32_t times = 1);

/// The same with the dispatches from `also` on, which are counted in one run, each in every run.
std::vector<size_t> merged_starts(std::vector<size_t> starts, std::span<const size_t> also,
                                  size_t count, uint32_t times);

/// What is recorded in one piece of `times` runs of `count` dispatches: runs, cut at `starts`.
std::vector<DispatchRange> recorded_ranges(size_t count, uint32_t times,
                                           std::span<const size_t> starts);

}  // namespace tv

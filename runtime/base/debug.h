#pragma once
// Switches that tests turn to prove the runtime right, and counters that they read.

#include <cstdint>
#include <string>
#include <vector>

namespace tv {

/// How engines record. A change makes every recording stale. Thread-safe to set between calls.
struct DebugModes {
  bool poison_arena =
      false;  ///< fill the arena with NaN before each run (TORCH_VULKAN_POISON_ARENA)
  bool full_barriers = false;  ///< a barrier before every dispatch (TORCH_VULKAN_FULL_BARRIERS)
  bool check_hazards = false;  ///< recompute hazards of each recording (TORCH_VULKAN_CHECK_HAZARDS)
  int64_t remove_barrier = -1;  ///< leave out the k-th barrier (TORCH_VULKAN_REMOVE_BARRIER)
  /// most microseconds predicted for one submission, -1: the device's (TORCH_VULKAN_SUBMIT_US)
  int64_t submit_us = -1;
  /// bytes of device memory that there are at most, -1: what the driver has
  /// (TORCH_VULKAN_DEVICE_BYTES)
  int64_t device_bytes = -1;
  bool own_pipelines = false;  ///< engines share none (TORCH_VULKAN_OWN_PIPELINES)
  bool operator==(const DebugModes&) const = default;
};

DebugModes debug_modes();
void set_debug_modes(const DebugModes& modes);
/// Counts changes of the modes, so that a recording knows that it is stale.
uint64_t debug_generation();

/// True once: at the submission of work that TORCH_VULKAN_LOSE_DEVICE counts, from 1 ("5+": at each
/// from the fifth on). The device then behaves as if its driver had reported a loss.
bool loses_device();

/// Messages of the Khronos validation layer, which TORCH_VULKAN_VALIDATION=1 switches on.
struct ValidationLog {
  bool active = false;
  uint64_t count = 0;                 ///< warnings and errors since the start or the last reset
  std::vector<std::string> messages;  ///< the first 64 of them
};
ValidationLog validation_log();
void reset_validation_log();

}  // namespace tv

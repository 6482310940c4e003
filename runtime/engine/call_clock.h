#pragma once
// Where the time of a call goes.

#include <chrono>

#include "runtime/engine/recordings.h"
#include "runtime/engine/timed_calls.h"

namespace tv {

/// Knows when a call began and, where it is `timed`, what took how long. A recording is told where
/// the device is to look at its clock: `begin`, then `mark` 1, 2 and 3 after copies in, kernels,
/// copies out.
class CallClock {
 public:
  CallClock(Device& device, bool timed) : device_(device), timed_(timed) {}

  void start();
  double us_since_start() const;
  bool reads_device() const { return timed_ && !device_.profile().is_cpu(); }
  const CallTimes& times() const { return times_; }

  void begin(Recording& recording) const;
  static void mark(Recording& recording, VkCommandBuffer commands, uint32_t index);

  // In the order of a call; nothing happens where it is not timed.
  void submitting();
  void submitted();
  void computed(const Recording& recording);
  void ended();

 private:
  Device& device_;
  bool timed_;
  std::chrono::steady_clock::time_point started_;
  double submitting_us_ = 0;
  CallTimes times_;
};

}  // namespace tv

#include "runtime/engine/call_clock.h"

namespace tv {

void CallClock::start() {
  started_ = std::chrono::steady_clock::now();
  times_ = {};
}

double CallClock::us_since_start() const {
  const std::chrono::duration<double, std::micro> taken =
      std::chrono::steady_clock::now() - started_;
  return taken.count();
}

void CallClock::begin(Recording& recording) const {
  if (!reads_device()) return;
  if (!recording.marks.active()) recording.marks = Timestamps(device_, 4);
  if (!recording.marks.active()) return;
  recording.marks.reset(recording.commands);
  recording.marks.write(recording.commands, 0);
}

void CallClock::mark(Recording& recording, VkCommandBuffer commands, uint32_t index) {
  if (recording.marks.active()) recording.marks.write(commands, index);
}

void CallClock::submitting() {
  if (timed_) submitting_us_ = us_since_start();
}

void CallClock::submitted() {
  if (timed_) times_.queue_us = us_since_start();
}

void CallClock::computed(const Recording& recording) {
  if (!timed_) return;
  times_.done_us = us_since_start();
  if (!recording.marks.active()) {
    times_.compute_us = us_since_start() - submitting_us_;
    return;
  }
  const std::vector<double> marks = recording.marks.read_us(4);
  times_.upload_us = marks[1];
  times_.compute_us = marks[2] - marks[1];
  times_.download_us = marks[3] - marks[2];
}

void CallClock::ended() {
  if (timed_) times_.host_us = us_since_start();
}

}  // namespace tv

// Where the time of a call goes.

#include "runtime/engine/context.h"

namespace tv {

double Context::us_since_start() const {
  const std::chrono::duration<double, std::micro> taken =
      std::chrono::steady_clock::now() - started_;
  return taken.count();
}

void Context::start_marks(Recording& recording) {
  if (!device_clock()) return;
  if (!recording.marks.active()) recording.marks = Timestamps(device_, 4);
  if (!recording.marks.active()) return;
  recording.marks.reset(recording.commands);
  recording.marks.write(recording.commands, 0);
}

void Context::mark(Recording& recording, VkCommandBuffer commands, uint32_t index) {
  if (recording.marks.active()) recording.marks.write(commands, index);
}

void Context::submit_timed(Recording& recording) {
  const double before = us_since_start();
  submit_parts(recording);
  times_.queue_us = us_since_start();
  device_.wait(submission_);
  if (!recording.marks.active()) {
    times_.compute_us = us_since_start() - before;
    return;
  }
  const std::vector<double> marks = recording.marks.read_us(4);
  times_.upload_us = marks[1];
  times_.compute_us = marks[2] - marks[1];
  times_.download_us = marks[3] - marks[2];
}

}  // namespace tv

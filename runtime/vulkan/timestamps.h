#pragma once
// The device's own clock, read between dispatches.

#include <vector>

#include "runtime/vulkan/device_impl.h"

namespace tv {

/// A pool of timestamps. Inactive (host clock instead) on CPU drivers, where they say when a
/// command was taken rather than done, and on queues that have none.
class Timestamps {
 public:
  Timestamps() = default;
  Timestamps(Device& device, uint32_t count);

  bool active() const { return static_cast<bool>(pool_); }
  /// Must come before the first `write` of a recording.
  void reset(VkCommandBuffer commands);
  /// Takes the time once everything before it is done.
  void write(VkCommandBuffer commands, uint32_t index);
  /// The first `count` times in µs, counted from the first; the recording has run.
  std::vector<double> read_us(uint32_t count) const;

 private:
  Device* device_ = nullptr;
  OwnedQueryPool pool_;
  uint32_t count_ = 0, valid_bits_ = 0;
  double period_ns_ = 0;
};

}  // namespace tv

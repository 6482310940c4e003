#pragma once
// Copies of weights to device memory, many to a submit.

#include <vector>

#include "runtime/vk_device.h"

namespace tv {

/// Gathers pieces in one staging buffer and copies them when it is full. Call `finish` at the end.
class WeightUpload {
 public:
  explicit WeightUpload(Device& device);
  /// Copies `bytes` bytes at `src` to `dst` from `offset`.
  void add(const Allocation& dst, int64_t offset, const void* src, int64_t bytes);
  void finish();

 private:
  struct Piece {
    VkBuffer dst;
    VkBufferCopy region;
  };
  Device& device_;
  Allocation staging_;  // made at the first use
  int64_t used_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace tv

#pragma once
// Copies of weights to device memory, many to a submit.

#include <vector>

#include "runtime/cuda/link.h"
#include "runtime/engine/engine.h"

namespace tv {

/// Gathers pieces in one staging buffer and copies them when it is full. Call `finish` at the end.
class WeightUpload {
 public:
  /// `most`: bytes that will be added. Throws Error(kDevice) if the source is CUDA and there is no
  /// link to it.
  WeightUpload(Device& device, WeightSource source, int64_t most);
  /// Copies `bytes` bytes at `src` (of the source) to `dst` from `offset`.
  void add(const Allocation& dst, int64_t offset, const void* src, int64_t bytes);
  void finish();

 private:
  struct Piece {
    VkBuffer dst;
    VkBufferCopy region;
  };
  void make_staging();
  void read(const void* src, int64_t bytes);

  Device& device_;
  CudaLink* link_ = nullptr;  ///< where the source is CUDA
  CuStream stream_ = nullptr;
  Allocation staging_;  // one of the two, made at the first use
  SharedBuffer shared_;
  int64_t staging_bytes_;
  int64_t used_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace tv

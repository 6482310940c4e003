#pragma once
// A caller's CUDA tensors, as kernels reach them.

#include <span>
#include <vector>

#include "runtime/cuda/link.h"
#include "runtime/engine/shape_plan.h"

namespace tv {

inline uint64_t address_of(const CudaTensor& tensor) {
  return reinterpret_cast<uint64_t>(tensor.data);
}

/// Tensors whose memory can be shared are used in place; the others are copied on their stream from
/// and to memory of Vulkan's.
class CudaOperands {
 public:
  explicit CudaOperands(Device& device) : device_(device) {}

  /// Resolves CUDA's addresses: `bound` becomes those of inputs, then outputs. Waits for `last`,
  /// the submission before, where it makes room for more copies.
  void bind(std::span<const CudaTensor> inputs, std::span<const CudaTensor> outputs, CudaLink& link,
            uint64_t last, std::vector<uint64_t>& bound);
  /// Whether tensor `slot` (inputs, then outputs) of the last `bind` is copied.
  bool is_staged(size_t slot) const { return staged_at_[slot] >= 0; }
  int count_staged() const;

  void copy_in(std::span<const CudaTensor> tensors, size_t first_slot, CudaLink& link,
               CuStream stream);
  void copy_out(std::span<const CudaTensor> tensors, size_t first_slot, CudaLink& link,
                CuStream stream);
  /// True once something was copied out: the stream may still read the memory of the copies.
  bool copied_out() const { return copied_out_; }

 private:
  void copy(std::span<const CudaTensor> tensors, size_t first_slot, bool in, CudaLink& link,
            CuStream stream);

  Device& device_;
  SharedBuffer staging_;
  std::vector<int64_t> staged_at_;  ///< offset in staging_ by input, then output; -1: shared
  bool copied_out_ = false;
};

}  // namespace tv

#pragma once
// Tensors that callers pass to an engine.

#include <cstdint>

namespace tv {

/// Host memory of one dense tensor. Must stay valid until the call that takes it returns (for
/// weights on a host-pointer device: as long as the WeightSet lives).
struct HostTensor {
  void* data = nullptr;
  int64_t size_bytes = 0;
  /// Of a DeviceTensor on a device that does not use host memory in place: kernels find it here,
  /// and `data` is null.
  uint64_t device_address = 0;
};

/// CUDA memory of one dense tensor.
struct CudaTensor {
  void* data = nullptr;
  int64_t size_bytes = 0;
};

inline bool has_memory(const HostTensor& tensor) { return tensor.data || tensor.device_address; }
inline bool has_memory(const CudaTensor& tensor) { return tensor.data != nullptr; }

}  // namespace tv

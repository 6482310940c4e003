#pragma once
// Tensors that callers pass to an engine.

#include <cstdint>

namespace tv {

/// Host memory of one dense tensor. Must stay valid until the call that takes it returns (for
/// weights on a host-pointer device: as long as the WeightSet lives).
struct HostTensor {
  void* data = nullptr;
  int64_t size_bytes = 0;
};

/// CUDA memory of one dense tensor.
struct CudaTensor {
  void* data = nullptr;
  int64_t size_bytes = 0;
};

}  // namespace tv

#pragma once
// What CUDA and a Vulkan device do together.

#include <cstdint>
#include <string>
#include <vector>

namespace tv {

class Device;  // internals: runtime/vulkan/device_impl.h

/// What of CUDA works together with `device`, one line a step, for people to read.
std::vector<std::string> cuda_report(Device& device);

/// How calls on CUDA tensors found their stream so far.
struct CudaCounts {
  uint64_t idle = 0;        ///< nothing to wait for
  uint64_t polled = 0;      ///< after a short wait of the host
  uint64_t semaphores = 0;  ///< by a shared semaphore
  uint64_t imports = 0;     ///< pieces of CUDA's memory that are imported now
};
CudaCounts cuda_counts(Device& device);
/// True if engines on `device` use these bytes of CUDA's in place.
bool cuda_finds(Device& device, uint64_t address, int64_t size_bytes);

}  // namespace tv

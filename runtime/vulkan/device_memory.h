#pragma once
// How much memory this process holds on a device.

#include <cstdint>

namespace tv {

class Device;

/// Bytes by what they are for. Weights and tensors that a device reads where the caller has them
/// (lavapipe) are not among them.
struct DeviceMemory {
  int64_t arenas = 0;        ///< activations
  int64_t weights = 0;       ///< copies and packed forms of weights, and what making them takes
  int64_t slots = 0;         ///< where weights that are streamed pass through
  int64_t staging = 0;       ///< copies between the host and the device
  int64_t shared = 0;        ///< memory that CUDA reaches as well
  int64_t other = 0;         ///< parameters of kernels, DeviceTensors, the tuner's operands
  int64_t peak = 0;          ///< the highest total since `reset_peak_memory`
  int64_t host_weights = 0;  ///< in host memory: what is streamed; no part of `all` and `peak`
  int64_t all() const { return arenas + weights + slots + staging + shared + other; }
};
DeviceMemory memory_in_use(const Device& device);
void reset_peak_memory(Device& device);
/// Frees the arenas and staging memory that no call uses now; the next calls make them again.
void release_memory(Device& device);

}  // namespace tv

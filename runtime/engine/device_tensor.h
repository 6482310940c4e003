#pragma once
// Tensors that stay on the device from one call to the next, as the state of a model does.

#include <cstdint>
#include <memory>

#include "runtime/spec/tensor.h"
#include "runtime/vulkan/device.h"

namespace tv {

/// Owns memory of a device, zeros at first. Passed to Engine::run or Engine::time_dispatches in
/// place of a host tensor, it is neither copied to the device nor back. time_dispatches runs
/// several times, and advances a state each time. Must outlive the calls that take it.
class DeviceTensor {
 public:
  /// Throws OutOfMemoryError.
  DeviceTensor(std::shared_ptr<Device> device, int64_t size_bytes);
  DeviceTensor(DeviceTensor&& other) noexcept;
  DeviceTensor& operator=(DeviceTensor&& other) noexcept;
  ~DeviceTensor();

  /// Makes it zeros again; no call that takes it may be running. Throws Error(kDevice).
  void clear();
  /// For engines of the same device.
  HostTensor tensor() const;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace tv

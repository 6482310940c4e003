#pragma once
// Tensors that stay on the device from one call to the next, as the state of a model does.

#include <cstdint>
#include <memory>

#include "runtime/spec/tensor.h"
#include "runtime/vulkan/device.h"

namespace tv {

/// Owns memory of a device, zeros at first. Passed to Engine::run and Engine::profile in place of a
/// host tensor, it is neither copied to the device nor back; `profile` runs as often as it is
/// told, so that it moves a state on as often. Must outlive the calls that take it.
class DeviceTensor {
 public:
  /// Throws OutOfMemoryError.
  DeviceTensor(std::shared_ptr<Device> device, int64_t size_bytes);
  DeviceTensor(DeviceTensor&& other) noexcept;
  DeviceTensor& operator=(DeviceTensor&& other) noexcept;
  ~DeviceTensor();

  /// For engines of the same device.
  HostTensor tensor() const;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace tv

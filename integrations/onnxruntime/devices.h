#pragma once
// Which Vulkan device runs what ONNX Runtime put on a piece of hardware.

#include <memory>
#include <string>
#include <vector>

#include "integrations/onnxruntime/ort.h"
#include "runtime/vulkan/device.h"

namespace tv::ort {

/// A piece of hardware as ONNX Runtime knows it.
struct Hardware {
  bool is_cpu = false;
  uint32_t vendor_id = 0, device_id = 0;  ///< of PCI
  int64_t ordinal = 0;                    ///< among GPUs that have the same
};

/// Those that a Vulkan driver may be for, with their positions in `devices`. Opens nothing.
std::vector<std::pair<size_t, Hardware>> candidates(const OrtHardwareDevice* const* devices,
                                                    size_t count);

/// Opens the Vulkan device that `spec` or TORCH_VULKAN_DEVICE names, else the best of the hardware.
/// Throws Error(kDevice) that lists what there is.
std::shared_ptr<Device> open_on(const std::vector<Hardware>& hardware, const std::string& spec);

}  // namespace tv::ort

#pragma once
// How a device's float controls are set for kernels, so that results are those of IEEE 754 and torch.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/vk_device.h"

namespace tv {

/// True where the device flushes float32 denormals at will but keeps them on demand.
bool offers_denormals(const Device& device);

/// `module` with the execution mode DenormPreserve for float32. Engines do not hold it, as it is the
/// device's to offer. What is not SPIR-V 1.4 or later with one entry point comes back as it is.
std::vector<uint32_t> keeping_denormals(std::span<const uint32_t> module);

}  // namespace tv

#pragma once
// A compiled part of a model as bytes, for ONNX Runtime's EPContext models: its engine with its
// weights, and how the node calls it.

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "integrations/onnxruntime/fused_node.h"

namespace tv::ort {

std::string to_context(const Wiring& wiring, const CompiledBlock& compiled);

/// Loads what to_context wrote. Throws Error(kUser) for anything else, and where the engine does
/// not run on the device.
std::pair<Wiring, BuiltEngine> from_context(std::span<const uint8_t> bytes,
                                            const std::shared_ptr<Device>& device);

/// What a context that was built for a device needs of another one, as text.
std::string compatibility_of(const DeviceProfile& device);

enum class Fit : uint8_t { kOptimal, kRuns, kNot };
Fit fit_of(const std::string& compatibility, const DeviceProfile& device);

}  // namespace tv::ort

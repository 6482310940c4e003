#pragma once
// A compiled part of a model as bytes, for ONNX Runtime's EPContext models: its engine, with its
// weights or with what tells them in the model that has them, and how the node calls it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "integrations/onnxruntime/fused_node.h"
#include "integrations/onnxruntime/weight_source.h"

namespace tv::ort {

/// `source`: of weights that are left out; null: none is.
std::string to_context(const Wiring& wiring, const CompiledBlock& compiled,
                       const WeightSource* source);

struct Context {
  Wiring wiring;
  CompiledBlock compiled;              ///< without the bytes of weights that `source` has
  std::optional<WeightSource> source;  ///< of a context without weights
};

/// Reads what to_context wrote. Throws Error(kUser) for anything else.
Context from_context(std::span<const uint8_t> bytes);

/// What a context that was built for a device needs of another one, as text.
std::string compatibility_of(const DeviceProfile& device);

enum class Fit : uint8_t { kOptimal, kRuns, kNot };
Fit fit_of(const std::string& compatibility, const DeviceProfile& device);

}  // namespace tv::ort

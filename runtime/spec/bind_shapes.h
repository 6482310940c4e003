#pragma once
// From the shapes of a call to values of the engine's symbols.

#include <span>
#include <vector>

#include "runtime/spec/engine_spec.h"

namespace tv {

/// Throws Error(kUser) naming the input, the dimension, what was got and what is allowed, by ranges
/// and by conditions.
std::vector<int64_t> bind_shapes(const EngineSpec& spec,
                                 std::span<const std::vector<int64_t>> input_shapes);

}  // namespace tv

#pragma once
// Times of the dispatches of every engine that is called while someone listens (tv.profile).

#include <ATen/core/Tensor.h>

#include <atomic>
#include <tuple>
#include <vector>

#include "runtime/engine/engine.h"

namespace tv::torch_bindings {

/// Runs of each dispatch that are timed; 0: nobody listens.
inline std::atomic<int64_t> profile_runs{0};

/// Adds what one call of the engine with this file took. Thread-safe.
void add_profile(const at::Tensor& vke, const std::vector<DispatchTime>& times);

/// What was added since the last call: files, and for each a float64 tensor [dispatches, 3] of
/// microseconds (median, mean) and operand bytes.
std::tuple<std::vector<at::Tensor>, std::vector<at::Tensor>> take_profiles();

}  // namespace tv::torch_bindings

#pragma once
// From a Graph to an engine.

#include "csrc/cost_model.h"
#include "csrc/graph/graph.h"
#include "csrc/passes/quantise/multiply_quantised.h"
#include "csrc/passes/quantise/multiply_sparse.h"
#include "csrc/passes/write/write_in_place.h"
#include "csrc/progress.h"
#include "csrc/settings.h"
#include "runtime/spec/engine_spec.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Runs the passes, converters and code generation. Deterministic: the same graph, settings,
/// profile and choices of `costs` give the same bytes. Without a cost model the first tactic that
/// applies is taken. Throws Error.
EngineSpec compile(Graph graph, const Settings& settings, const DeviceProfile& device,
                   const Progress& progress = nullptr, CostModel* costs = nullptr);

/// What compile() makes of each quantised tensor.
std::vector<QuantisedOutcome> quantised_outcomes(Graph graph, const Settings& settings,
                                                 const DeviceProfile& device);

/// What compile() makes of the weights of products where settings.sparse_weights is set; without a
/// cost model, so by rule.
std::vector<SparseOutcome> sparse_outcomes(Graph graph, const Settings& settings,
                                           const DeviceProfile& device);

/// What compile() makes of each value that is written over an input; without a cost model.
std::vector<WriteOutcome> write_outcomes(Graph graph, const Settings& settings,
                                         const DeviceProfile& device);

}  // namespace tv

#pragma once
// What has to be computed for a new set of weights: everything, or what changed. A pure function of
// the engine.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/spec/engine_spec.h"

namespace tv {

/// How the buffers of a set of weights come about. Vectors by EngineSpec::buffers, but for `run`.
struct WeightPlan {
  std::vector<bool> kept;     ///< dispatches read it: it lives as long as the set
  std::vector<bool> fresh;    ///< written for this set, in memory of its own
  std::vector<bool> needed;   ///< weights whose bytes are read now, by a step or a copy
  std::vector<uint32_t> run;  ///< steps of the weight program, in order
};

/// Which weights dispatches read as they are; of the others only the weight program's results.
std::vector<bool> weights_read_by_calls(const EngineSpec& spec);

/// Everything is made.
WeightPlan plan_all_weights(const EngineSpec& spec);

/// Weights numbered in `changed` (into EngineSpec::weights) have other bytes than in an older set;
/// whatever does not depend on them is taken from there. A step runs where its results depend on
/// them, or where one that runs reads a temporary of it.
WeightPlan plan_changed_weights(const EngineSpec& spec, std::span<const uint32_t> changed);

}  // namespace tv

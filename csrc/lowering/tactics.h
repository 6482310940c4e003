#pragma once

#include <string>
#include <vector>

#include "csrc/builder.h"
#include "csrc/lowering/value_table.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// What one node's converter emitted and what was taken; for dispatches and for the debug dump.
struct NodeTactics {
  std::vector<Tactic> candidates;  ///< with the refusals of lowering beside those of the converter
  size_t chosen = 0;
  bool named = false;  ///< by settings.tactics: nobody else chooses
};

/// Runs the node's converter. Adds its scratch values to `table`. Throws Error(kInternal) if the
/// converter emits nothing or refuses every tactic: the partitioner took the node.
NodeTactics convert_node(const Node& node, ValueTable& table, const DeviceProfile& device,
                         const Settings& settings);

/// Index of the tactic to use: the first that applies and that settings.tactics names, else the
/// first that applies. Throws Error(kInternal) listing the refusals where none does.
size_t choose_tactic(const Node& node, const std::vector<Tactic>& tactics,
                     const Settings& settings);

/// Step::iterations with those of the programs that are fused into the node.
Expr iterations_of(const Step& step, const Node& node);

/// Where the operand `x` may use x_vec4: dense storage from a multiple of 16 bytes.
bool is_vec4_aligned(const ValueTable& table, ValueId value);

}  // namespace tv

#pragma once

#include <string>
#include <vector>

#include "csrc/cost_model.h"
#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// What lowering leaves for the debug dump.
struct LoweringReport {
  struct NodeReport {
    struct Tactic {
      std::string name, refusal;
      std::string note;  ///< of the cost model
    };
    std::string node, op;
    std::vector<Tactic> tactics;
    size_t chosen = 0;
  };
  struct KernelReport {
    std::string name, glsl;
  };
  std::vector<NodeReport> nodes;
  std::vector<KernelReport> kernels;  ///< one a module
};

struct LoweringOptions {
  CostModel* costs = nullptr;        ///< null: the first tactic that applies
  LoweringReport* report = nullptr;  ///< filled where given
};

/// Makes the engine of a graph whose layouts are chosen: runs each node's converter, generates and
/// compiles the kernels, and splits the launches into the weight program and the dispatch list.
EngineSpec lower(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                 const Progress& progress = nullptr, const LoweringOptions& options = {});

}  // namespace tv

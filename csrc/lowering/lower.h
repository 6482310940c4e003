#pragma once

#include <string>
#include <vector>

#include "csrc/compile.h"
#include "csrc/lowering/tactics.h"

namespace tv {

/// What lowering leaves for the debug dump.
struct LoweringReport {
  struct NodeReport {
    std::string node, op;
    std::vector<std::pair<std::string, std::string>> tactics;  ///< name, refusal
    size_t chosen = 0;
  };
  struct KernelReport {
    std::string name, glsl;
  };
  std::vector<NodeReport> nodes;
  std::vector<KernelReport> kernels;  ///< one a module
};

/// Makes the engine of a graph whose layouts are chosen: runs each node's converter, generates and
/// compiles the kernels, and splits the launches into the weight program and the dispatch list.
EngineSpec lower(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                 const Progress& progress = nullptr, LoweringReport* report = nullptr);

}  // namespace tv

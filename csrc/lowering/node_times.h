#pragma once
// Times of single nodes, as the cost model measures them, for choosing between graphs.

#include <map>
#include <optional>
#include <span>
#include <string>

#include "csrc/cost_model.h"
#include "csrc/graph/graph.h"
#include "csrc/lowering/program_writer.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Settings, device and costs must outlive it.
class NodeTimes {
 public:
  NodeTimes(const Settings& settings, const DeviceProfile& device, CostModel& costs,
            Progress progress)
      : settings_(settings), device_(device), costs_(costs), progress_(std::move(progress)) {}

  /// µs of the nodes (indices) one after the other, each by the fastest of the few tactics that are
  /// tried for a comparison; nothing if one is not timed. What depends on constants alone takes
  /// none. The graph is as lower() takes it. What Progress throws passes through.
  std::optional<double> us(const Graph& graph, std::span<const size_t> nodes);

 private:
  std::optional<double> us_of(const Node& node, const ProgramWriter::Parts& parts);

  const Settings& settings_;
  const DeviceProfile& device_;
  CostModel& costs_;
  const Progress progress_;
  std::map<std::string, std::optional<double>> known_;  // by problem
};

}  // namespace tv

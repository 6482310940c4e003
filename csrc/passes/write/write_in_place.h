#pragma once

#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// What becomes of a value that is written over an input.
struct WriteOutcome {
  std::string input;   ///< GraphOutput::name
  std::string reason;  ///< why it is copied there; "": it is made there
};

/// Places each value that overwrites an input (GraphOutput::over) in that input's memory. An
/// operator that replaces a part of the input (slice_scatter, index_put, …, also several of them in
/// sequence or nested) then stores only that part, if nothing reads the old contents afterwards. A
/// node that computes the value without reading the input stores it there directly; any other value
/// is copied there after the last node. Passes before it treat nodes
/// as pure functions; only those that join such writes come after it.
/// outcomes: gets one for each such value, in the order of the graph's outputs.
Graph write_in_place(Graph graph, const Settings& settings, const DeviceProfile& device,
                     std::vector<WriteOutcome>* outcomes = nullptr);

}  // namespace tv

#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Places each value that overwrites an input (GraphOutput::over) in that input's memory. An
/// operator that replaces a part of the input (slice_scatter, index_put, …, also several of them in
/// sequence or nested) then stores only that part, if nothing reads the old contents afterwards. A
/// node that computes the value without reading the input stores it there directly; any other value
/// is copied there after the last node. Runs last, because the other passes treat nodes as pure
/// functions.
Graph write_in_place(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv

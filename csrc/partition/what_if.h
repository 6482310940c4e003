#pragma once
// What the partition of a graph would be if engines took more operators than they do.

#include <set>
#include <string>

#include "csrc/partition/partition.h"

namespace tv {

/// The partition as if every node whose operator is in `operators` were supported, whatever its
/// converter says. Not to be built: only the sizes of its blocks mean something. Throws as
/// partition does.
Partition partition_as_if(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                          const std::set<std::string>& operators);

}  // namespace tv

#pragma once

#include <map>
#include <string>
#include <vector>

#include "csrc/frontends/weight.h"
#include "csrc/graph/graph.h"

namespace tv::graph_file {

/// Narrows a graph's symbols to what these sizes of inputs, by name, leave of them. Throws
/// Error(kUser) for an unknown input, another rank, and sizes that the graph does not take.
void narrow(Graph& graph, const std::map<std::string, std::vector<DimRange>>& inputs);

}  // namespace tv::graph_file

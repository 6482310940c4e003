#pragma once

#include <string>
#include <vector>

#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::onnx {

/// Which values of a graph its inputs decide; the others are computed of weights alone.
std::vector<bool> decided_by_inputs(const Graph& graph);

/// Of a partial import, for each node of the file: names of the nodes of the graph that it became,
/// and of those that compute weights for them, in alphabetical order. None for a node that nothing
/// is computed for from an input.
std::vector<std::vector<std::string>> graph_nodes(const ImportedModel& model);

}  // namespace tv::onnx

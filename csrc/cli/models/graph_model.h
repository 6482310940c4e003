#pragma once
// A graph file where commands look at models node by node.

#include "csrc/cli/flags/options.h"
#include "csrc/frontends/graph_file/graph_file.h"
#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::cli {

/// Reads options.graph for the shapes that the options name; what they fix is no symbol any more.
/// Values have different names: those of outputs are the outputs'.
graph_file::Model graph_model(const Options& options);

/// As a partial import of an ONNX file says it: each node of the graph is a node of the file.
onnx::ImportedModel as_import(graph_file::Model model);

}  // namespace tv::cli

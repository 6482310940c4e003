#pragma once
// Graphs as files (.vkg), for models that come from elsewhere: what tv.export_graph writes.
//
// A file is a .safetensors file: its tensors are the graph's weights, by name, and the metadata has
// "format": kFormat, "version": kVersion and "graph": the graph as JSON (graph_text.h). It holds
// data alone, and everything in it is checked before it is used.

#include <map>
#include <string>
#include <vector>

#include "csrc/frontends/weight.h"
#include "csrc/graph/graph.h"

namespace tv::graph_file {

inline constexpr const char* kFormat = "torch_vulkan graph";
inline constexpr const char* kVersion = "1";

struct Options {
  /// Sizes by name of the input, one range a dimension, within those that the file has.
  std::map<std::string, std::vector<DimRange>> inputs;
  /// A .safetensors file whose tensors take the place of the weights of the same names; "": none.
  std::string weights;
  bool sparse_weights = false;  ///< as in onnx::ImportOptions
};

struct Model {
  Graph graph;
  std::vector<Weight> weights;  ///< in the order of the graph's
};

/// Throws Error(kUser), which says what is wrong with the file.
Model read(const std::string& path, const Options& options = {});

/// Throws Error(kUser), which names the node, where arguments or shapes do not fit their operators.
/// What these want of sizes that depend on symbols becomes conditions of the graph.
void check_nodes(Graph& graph);

/// How a file begins, and the graph's weights whose bytes follow it, in this order.
struct Head {
  std::string bytes;
  std::vector<size_t> weights;
};

/// Of a graph as a frontend makes it. Throws Error(kUser) for names that no file holds.
Head head(const Graph& graph);

/// A whole file.
std::vector<uint8_t> file_of(const Model& model);

}  // namespace tv::graph_file

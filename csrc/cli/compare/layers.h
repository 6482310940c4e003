#pragma once
// The nodes of an ONNX file, or of a graph file, as layers of which every result can be seen.

#include <map>
#include <string>
#include <vector>

#include "csrc/cli/models/build.h"
#include "csrc/cli/models/tensors.h"

namespace tv::cli {

/// A float tensor that a node of the file computes from the model's inputs.
struct LayerTensor {
  std::string name;
  size_t layer = 0;                ///< which of Layers::layers makes it
  std::vector<std::string> reads;  ///< the tensors of this kind that the layer reads
};

/// A node of the file that computes something of the model's inputs.
struct Layer {
  std::string label;               ///< [Conv "conv1"]
  std::vector<std::string> nodes;  ///< the Graph's, and those that compute weights for it
};

/// A model whose outputs are the tensors, for engines of which every tensor can be compared. What
/// is fused in the model's own engine is not fused there.
struct Layers {
  onnx::ImportedModel model;
  std::vector<Layer> layers;         ///< in topological order
  std::vector<LayerTensor> tensors;  ///< in topological order
  /// Which output of this model each output of the file is; those that are inputs or constants are
  /// left out.
  std::map<std::string, std::string> outputs;
};

/// The options with a size for each dimension of an input: of its file, of --shapes, else the usual
/// one. Engines are built for these sizes alone. `partial`: of a model of which nodes may have no
/// translation.
Options with_sizes(Options options, bool partial = false);

/// Reads the file that the options name; they have all sizes.
Layers layers_of(const Options& options);

/// The options of an engine that others are compared with: float32 as the model has it, and the
/// first tactic of each operator.
Options exact(Options options);

/// autocast_excluded_nodes for a layer: a pattern for each of its nodes that fits no other.
std::vector<std::string> patterns_of(const Layer& layer);

}  // namespace tv::cli

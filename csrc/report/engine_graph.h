#pragma once
// The structure of an engine, for people and tools.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/spec/engine_spec.h"

namespace tv {

/// The engine as layers and the data that goes between them.
struct EngineGraph {
  enum class Kind : uint8_t { kInput, kLayer, kOutput };
  struct Node {
    Kind kind = Kind::kLayer;
    size_t index = 0;  ///< into inputs, dispatches or outputs
  };
  /// Bytes that `to` reads of what `from` wrote, at the usual sizes.
  struct Edge {
    size_t from = 0, to = 0;
    int64_t bytes = 0;
  };
  std::vector<Node> nodes;  ///< every edge goes to a later one
  std::vector<Edge> edges;  ///< one for a pair of nodes
};

/// Follows the byte ranges that the dispatches declare.
EngineGraph engine_graph(const EngineSpec& spec);

/// JSON text of the fields of trtexec's --exportLayerInfo: an object with "Layers" (of each: Name,
/// LayerType, Inputs, Outputs, TacticName, Metadata and, of ours, Ops, ModulePath, Source, TunedUs)
/// and "Bindings"; and of the engine: Name, RunsOn, TunedFor, BuilderVersion, Symbols, Inputs,
/// Outputs, Weights.
std::string engine_layers_json(const EngineSpec& spec);

/// The layers as text, one line each, in the order in which they run.
std::string engine_layers_text(const EngineSpec& spec);

/// A drawing as SVG: layers as boxes with name, tactic and module path, data as arrows with sizes.
std::string engine_picture(const EngineSpec& spec);

}  // namespace tv

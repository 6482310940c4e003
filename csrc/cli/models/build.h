#pragma once
// From a file of a model to an engine.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "csrc/cli/flags/options.h"
#include "csrc/cli/models/network.h"
#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::cli {

/// Reads options.onnx, or options.graph as if it were one (graph_model.h), for the shapes that the
/// options name; `partial`: as in onnx::ImportOptions. Throws Error.
onnx::ImportedModel import_model(const Options& options, bool partial = false);

/// Inputs of options.onnx that set shapes, as far as they have no value: more may be seen when they
/// have one.
std::set<std::string> shape_inputs(const Options& options);

/// What import_model imports with.
onnx::ImportOptions import_options(const Options& options, bool partial);

/// A model that is read: what engines are made of.
struct ReadModel {
  Graph graph;
  std::vector<Weight> weights;
};

/// The ONNX file or the graph file that the options name, for their shapes. Throws Error.
ReadModel read_model(const Options& options);

/// Builds one engine of the whole model, or takes it from the cache; says what it does. Throws
/// Error(kUnsupported) listing the nodes that the device cannot run.
Network build_network(std::shared_ptr<Device> device, const Graph& graph,
                      const std::vector<Weight>& weights, const Options& options);
inline Network build_network(std::shared_ptr<Device> device, const onnx::ImportedModel& model,
                             const Options& options) {
  return build_network(std::move(device), model.graph, model.weights, options);
}

/// The weights of an ONNX file by name.
NewWeights onnx_weights(const std::string& path);

}  // namespace tv::cli

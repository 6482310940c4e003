#include "csrc/cli/compare/layers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "csrc/cli/tensors/npy.h"
#include "csrc/frontends/onnx/graph_nodes.h"
#include "runtime/base/error.h"

namespace tv::cli {
Options with_sizes(Options options, bool partial) {
  const bool quiet = std::exchange(options.quiet, true);
  const onnx::ImportedModel any = import_model(options, partial);
  for (const onnx::Binding& input : any.inputs) {
    const auto file = options.load_inputs.find(input.name);
    if (file != options.load_inputs.end() && file->second.ends_with(".npy")) {
      options.shapes.emplace(input.name, read_npy(file->second, input.dtype).shape);
    }
  }
  const onnx::ImportedModel model = import_model(options, partial);
  std::vector<int64_t> usual;
  for (const Symbol& symbol : model.graph.symbols) usual.push_back(symbol.opt);
  for (const onnx::Binding& input : model.inputs) {
    if (input.dtype == DType::kOther) continue;  // of which the file says too little
    std::vector<int64_t> sizes;
    for (const Expr& dim : input.shape) sizes.push_back(dim.eval(usual));
    options.shapes.emplace(input.name, std::move(sizes));
  }
  options.min_shapes.clear();
  options.opt_shapes.clear();
  options.max_shapes.clear();
  options.quiet = quiet;
  return options;
}

Layers layers_of(const Options& options) {
  Layers made{.model = import_model(options, /*partial=*/true)};
  Graph& graph = made.model.graph;
  const std::vector<bool> decided = onnx::decided_by_inputs(graph);
  std::vector<std::vector<std::string>> graph_nodes = onnx::graph_nodes(made.model);
  std::map<ValueId, std::string> shown;
  graph.outputs.clear();
  const auto value_of = [&](const std::string& name) {
    const auto found = made.model.names.find(name);
    return found == made.model.names.end() ? kNoValue : found->second.id;
  };
  for (size_t n = 0; n < made.model.nodes.size(); ++n) {
    const onnx::FileNode& node = made.model.nodes[n];
    if (graph_nodes[n].empty()) continue;
    std::set<std::string> reads;
    for (const std::string& name : node.reads) {
      const auto found = shown.find(value_of(name));
      if (found != shown.end()) reads.insert(found->second);
    }
    for (const std::string& name : node.writes) {
      const ValueId value = value_of(name);
      if (value == kNoValue || !decided.at(static_cast<size_t>(value)) || shown.contains(value) ||
          graph.value(value).kind != ValueKind::kNode || !is_float(graph.value(value).dtype)) {
        continue;
      }
      shown.emplace(value, name);
      graph.outputs.push_back({.value = value, .name = name, .strides = {}});
      made.tensors.push_back(
          {.name = name, .layer = made.layers.size(), .reads = {reads.begin(), reads.end()}});
    }
    made.layers.push_back({.label = node.label, .nodes = std::move(graph_nodes[n])});
  }
  for (const onnx::Binding& output : made.model.outputs) {
    const ValueId value = value_of(output.name);
    if (value == kNoValue || graph.value(value).kind != ValueKind::kNode) continue;
    const auto [found, added] = shown.emplace(value, output.name);
    if (added) graph.outputs.push_back({.value = value, .name = output.name, .strides = {}});
    made.outputs.emplace(output.name, found->second);
  }
  if (made.tensors.empty()) {
    throw Error(ErrorKind::kUser, "[vkexec] " + options.model_path() +
                                      " computes no float tensor from its inputs: there is "
                                      "nothing to compare by layer");
  }
  return made;
}

Options exact(Options options) {
  options.settings.enabled_precisions.clear();
  options.settings.calibration.clear();
  options.settings.autocast_excluded_nodes.clear();
  options.settings.autocast_excluded_ops.clear();
  options.settings.disable_tf32 = true;
  options.settings.optimization_level = 0;
  return options;
}

std::vector<std::string> patterns_of(const Layer& layer) {
  std::vector<std::string> patterns;
  for (const std::string& node : layer.nodes) {
    std::string pattern = "^";
    for (const char c : node) {
      if (std::string_view(R"(^$\.*+?()[]{}|)").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
    patterns.push_back(pattern + "$");
  }
  return patterns;
}

}  // namespace tv::cli

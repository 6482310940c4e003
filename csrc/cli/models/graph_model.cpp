#include "csrc/cli/models/graph_model.h"

#include <algorithm>
#include <set>

#include "csrc/cli/flags/input_ranges.h"
#include "csrc/cli/models/sparsity.h"
#include "csrc/frontends/graph_file/graph_parts.h"

namespace tv::cli {
namespace {

void name_values(Graph& graph) {
  std::set<std::string> taken;
  std::set<ValueId> named;
  for (const std::vector<ValueId>& leaves : {graph.inputs, graph.weights}) {
    for (const ValueId v : leaves) {
      named.insert(v);
      taken.insert(graph.value(v).name);
    }
  }
  for (const GraphOutput& output : graph.outputs) {
    if (!named.insert(output.value).second) continue;
    taken.insert(output.name);
    graph.value(output.value).name = output.name;
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (named.contains(static_cast<ValueId>(v))) continue;
    std::string& name = graph.values[v].name;
    const std::string base = name.empty() ? "value" : name;
    name = base;
    for (size_t i = 1; !taken.insert(name).second; ++i) name = base + "_" + std::to_string(i);
  }
}

onnx::Binding binding_of(const std::string& name, const Value& value) {
  return {.name = name, .dtype = value.dtype, .shape = value.shape, .format = {}};
}

onnx::FileNode file_node(const Graph& graph, const Node& node) {
  const std::string module = node.module_path.empty() ? "" : " in " + node.module_path;
  onnx::FileNode made{.label = "[" + node.op + " \"" + node.name + "\"" + module + "]",
                      .op = node.op,
                      .reads = {},
                      .writes = {},
                      .refusal = {}};
  for (const ValueId v : node.all_inputs()) made.reads.push_back(graph.value(v).name);
  for (const ValueId v : node.outputs) {
    if (v != kNoValue) made.writes.push_back(graph.value(v).name);
  }
  return made;
}

}  // namespace

graph_file::Model graph_model(const Options& options) {
  graph_file::Model model = graph_file::read(
      options.graph,
      {.inputs = input_ranges(options), .sparse_weights = options.settings.sparse_weights});
  if (options.sparsity == "force") prune_weights(model.graph, model.weights);
  const auto is_fixed = [](const Symbol& s) { return s.min == s.max; };
  if (std::ranges::all_of(model.graph.symbols, is_fixed)) graph_file::fix_sizes(model.graph);
  name_values(model.graph);
  return model;
}

onnx::ImportedModel as_import(graph_file::Model model) {
  onnx::ImportedModel made{.graph = std::move(model.graph), .weights = std::move(model.weights)};
  const Graph& graph = made.graph;
  for (const ValueId v : graph.inputs) {
    made.inputs.push_back(binding_of(graph.value(v).name, graph.value(v)));
  }
  for (const GraphOutput& o : graph.outputs) {
    made.outputs.push_back(binding_of(o.name, graph.value(o.value)));
    made.names.emplace(o.name, onnx::Named{.id = o.value, .host = nullptr});
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    made.names.emplace(graph.values[v].name,
                       onnx::Named{.id = static_cast<ValueId>(v), .host = nullptr});
  }
  for (const Node& node : graph.nodes) made.nodes.push_back(file_node(graph, node));
  return made;
}

}  // namespace tv::cli

#include "csrc/cli/compare/compare.h"

#include <set>

#include "csrc/cli/bench/references.h"
#include "csrc/cli/compare/harm.h"
#include "csrc/cli/models/build.h"
#include "csrc/cli/tensors/difference.h"
#include "csrc/cli/tensors/npy.h"
#include "csrc/cli/tensors/tensor_text.h"
#include "csrc/cli/text/lines.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

/// One line of the table; false if the tensor differs.
bool compare_tensor(const std::string& name, const std::string& layer, const Tensor& got,
                    const Options& options) {
  const Tensor reference = read_npy(path_of(options, name), got.dtype);
  const Difference d = difference(got, reference, {options.atol, options.rtol});
  if (!d.mismatch.empty()) {
    say(format("%-40s differs: %s", name.c_str(), d.mismatch.c_str()));
    return false;
  }
  say(format("%-40s %-16s %10.3e %10.3e %10.7f %10llu  %s", name.c_str(),
             shape_text(got.shape).c_str(), d.max, d.mean, d.cosine,
             static_cast<unsigned long long>(d.max_ulp), d.good() ? "ok" : "differs"));
  if (d.good()) return true;
  say(format(
      "  %lld of %lld elements are outside of %g + %g * |reference|; the worst is element %lld: "
      "got %s, want %s",
      static_cast<long long>(d.outside), static_cast<long long>(d.numel), options.atol,
      options.rtol, static_cast<long long>(d.worst), element_text(got, d.worst).c_str(),
      element_text(reference, d.worst).c_str()));
  if (!layer.empty()) say("  made by " + layer);
  return false;
}

void say_header() {
  say(format("%-40s %-16s %10s %10s %10s %10s", "tensor", "shape", "max", "mean", "cosine",
             "max ULP"));
}

/// A tensor that a node makes, and what makes it.
struct Between {
  std::string name, layer;
};

/// Makes every tensor with a reference an output; returns them as they are computed.
std::vector<Between> add_outputs(Graph& graph, const Options& options) {
  std::set<ValueId> outputs;
  for (const GraphOutput& output : graph.outputs) outputs.insert(output.value);
  std::vector<Between> found;
  std::set<std::string> names;
  for (const Node& node : graph.nodes) {
    for (const ValueId value : node.outputs) {
      if (value == kNoValue) continue;
      std::string name = graph.value(value).name;
      for (const GraphOutput& output : graph.outputs) {
        if (output.value == value) name = output.name;
      }
      if (!has_reference(options, name) || !names.insert(name).second) continue;
      if (outputs.insert(value).second) graph.outputs.push_back({.value = value, .name = name});
      const bool known = !node.module_path.empty() && node.module_path != node.name;
      const std::string module = known ? " in " + node.module_path : "";
      found.push_back({name, node.op + " '" + node.name + "'" + module});
    }
  }
  return found;
}

bool compare_layers(const std::shared_ptr<Device>& device, onnx::ImportedModel model,
                    const Options& options) {
  const std::vector<Between> order = add_outputs(model.graph, options);
  if (order.empty()) {
    say("No tensor between the layers has a reference");
    return true;
  }
  say(format("=== %zu tensors in the order in which they are computed ===", order.size()));
  say("They are outputs of an engine of their own: what is fused in the engine proper is not here");
  const Network network = build_network(device, model, options);
  const Tensors results = run_on(network, input_tensors(network, options));
  say_header();
  for (const Between& tensor : order) {
    if (compare_tensor(tensor.name, tensor.layer, results.at(tensor.name), options)) continue;
    say("Stopped at the first tensor that differs");
    return false;
  }
  return true;
}

bool compare_outputs(const Network& network, const Options& options) {
  say("=== Outputs ===");
  const Tensors results = run_on(network, input_tensors(network, options));
  say_header();
  size_t compared = 0;
  bool good = true;
  for (const Binding& output : network.spec().outputs) {
    if (!has_reference(options, output.name)) {
      say(format("%-40s no reference", output.name.c_str()));
      continue;
    }
    ++compared;
    good = compare_tensor(output.name, "", results.at(output.name), options) && good;
  }
  if (compared == 0) {
    throw Error(ErrorKind::kUser, "[compare] none of the outputs has a reference: there is no " +
                                      path_of(options, network.spec().outputs.front().name));
  }
  return good;
}

/// The shapes of the inputs' files are the only ones that the engines are built for.
Options with_shapes(Options options, const onnx::ImportedModel& model) {
  for (const onnx::Binding& input : model.inputs) {
    const std::string& path = options.load_inputs.at(input.name);
    if (path.ends_with(".npy")) {
      options.shapes.emplace(input.name, read_npy(path, input.dtype).shape);
    }
  }
  return options;
}

}  // namespace

bool compare_network(std::shared_ptr<Device> device, const Options& given) {
  check_references(given);
  if (given.ref.empty() || given.sensitivity || !given.export_comparison.empty()) {
    return compare_by_harm(device, given);
  }
  if (!given.load_engine.empty()) {
    const Network network = Network::load(std::move(device), given.load_engine,
                                          {.weight_budget = given.settings.weight_budget});
    return compare_outputs(network, with_inputs(given, binding_names(network.spec().inputs)));
  }
  const onnx::ImportedModel any_shape = import_model(given);
  Options options = with_inputs(given, binding_names(any_shape.inputs));
  options = with_shapes(std::move(options), any_shape);
  const onnx::ImportedModel model = import_model(options);
  const bool layers = !options.layers || compare_layers(device, model, options);
  const Network network = build_network(device, model, options);
  return compare_outputs(network, options) && layers;
}

}  // namespace tv::cli

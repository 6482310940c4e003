#include "csrc/cli/models/tensors.h"

#include "runtime/base/error.h"

namespace tv::cli {

Tensors input_tensors(const Network& network, const Options& options) {
  RunInputs made = make_inputs(network, options);
  Tensors inputs;
  for (size_t i = 0; i < made.tensors.size(); ++i) {
    inputs.emplace(made.bound.engine->spec().inputs[i].name, std::move(made.tensors[i]));
  }
  return inputs;
}

Tensors run_on(const Network& network, const Tensors& inputs) {
  NamedShapes shapes;
  for (const Binding& input : network.spec().inputs) {
    const auto found = inputs.find(input.name);
    if (found == inputs.end()) {
      throw Error(ErrorKind::kInternal, "[vkexec] there is no input '" + input.name + "'");
    }
    shapes.emplace(input.name, found->second.shape);
  }
  const Bound bound = network.bind(shapes);
  const EngineSpec& spec = bound.engine->spec();
  std::vector<HostTensor> given;
  for (const Binding& input : spec.inputs) given.push_back(inputs.at(input.name).host());
  const std::vector<Tensor> outputs = make_outputs(bound);
  bound.engine->run(*bound.weights, bound.symbols, given, host_tensors(outputs));
  Tensors results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results.emplace(spec.outputs[i].name, row_major(outputs[i], spec.outputs[i], bound.symbols));
  }
  return results;
}

}  // namespace tv::cli

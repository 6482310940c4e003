#include "csrc/cli/models/inputs.h"

#include <cstring>

#include "csrc/cli/tensors/npy.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

const Binding* find_input(const EngineSpec& spec, const std::string& name) {
  for (const Binding& input : spec.inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

}  // namespace

RunInputs make_inputs(const Network& network, const Options& options) {
  NamedShapes shapes = options.shapes;
  std::map<std::string, Tensor> read;
  for (const auto& [name, path] : options.load_inputs) {
    const Binding* binding = find_input(network.spec(), name);
    if (!binding) {
      shapes.emplace(name, std::vector<int64_t>{});  // bind names the inputs there are
      continue;
    }
    if (!path.ends_with(".npy")) continue;
    Tensor tensor = read_npy(path, binding->dtype);
    if (tensor.dtype != binding->dtype) {
      throw Error(ErrorKind::kUser, "[input " + name + "] " + path + " holds " +
                                        std::string(tv::name(tensor.dtype)) + ", want " +
                                        std::string(tv::name(binding->dtype)));
    }
    const auto [given, added] = shapes.emplace(name, tensor.shape);
    if (!added && given->second != tensor.shape) {
      throw Error(ErrorKind::kUser, "[input " + name + "] " + path + " holds " +
                                        shape_text(tensor.shape) + ", --shapes says " +
                                        shape_text(given->second));
    }
    read.emplace(name, std::move(tensor));
  }
  RunInputs inputs{.bound = network.bind(shapes)};
  const EngineSpec& spec = inputs.bound.engine->spec();
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Binding& binding = spec.inputs[i];
    const std::vector<int64_t>& shape = inputs.bound.input_shapes[i];
    const auto file = options.load_inputs.find(binding.name);
    if (const auto found = read.find(binding.name); found != read.end()) {
      inputs.tensors.push_back(std::move(found->second));
    } else if (file != options.load_inputs.end()) {
      inputs.tensors.push_back(read_raw(file->second, binding.dtype, shape));
    } else {
      inputs.tensors.emplace_back(binding.dtype, shape);
      if (options.fill == Fill::kRandom) fill_random(inputs.tensors.back(), options.seed + i);
    }
  }
  return inputs;
}

std::vector<Tensor> make_outputs(const Bound& bound) {
  std::vector<Tensor> outputs;
  const EngineSpec& spec = bound.engine->spec();
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    outputs.emplace_back(spec.outputs[i].dtype, bound.output_shapes[i]);
  }
  return outputs;
}

std::vector<HostTensor> host_tensors(const std::vector<Tensor>& tensors) {
  std::vector<HostTensor> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.host());
  return out;
}

Tensor row_major(const Tensor& tensor, const Binding& binding, std::span<const int64_t> symbols) {
  Tensor out(tensor.dtype, tensor.shape);
  const auto width = static_cast<size_t>(size_bytes(tensor.dtype));
  std::vector<int64_t> strides, index(tensor.shape.size(), 0);
  for (const Expr& stride : binding.strides) strides.push_back(stride.eval(symbols));
  for (int64_t i = 0, count = tensor.numel(); i < count; ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) from += index[d] * strides[d];
    std::memcpy(out.bytes.data() + static_cast<size_t>(i) * width,
                tensor.bytes.data() + static_cast<size_t>(from) * width, width);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == tensor.shape[d];) index[d] = 0;
  }
  return out;
}

}  // namespace tv::cli

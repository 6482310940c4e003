// Runs a .vke file on inputs of ones and prints the sum of each output.
//
//   run_engine net.vke [size of symbolic dimensions]

#include <runtime/engine.h>
#include <runtime/error.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

namespace {

std::vector<int64_t> evaluate(const tv::Shape& dims, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> sizes;
  for (const tv::Expr& dim : dims) sizes.push_back(dim.eval(symbols));
  return sizes;
}

int64_t numel(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

int run(const std::string& path, int64_t size) {
  tv::VkeContents file = tv::read_vke(path);
  const auto engine = tv::Engine::create(tv::open_device(""), std::move(file.spec));
  const tv::EngineSpec& spec = engine->spec();
  std::cout << "device: " << tv::profile(*engine->device()).name << "\n";

  std::vector<tv::HostTensor> weights;
  for (auto& bytes : file.weights) {
    weights.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  }
  if (weights.size() != spec.weights.size()) {
    std::cerr << path << " has no weights in it: save it with them\n";
    return 1;
  }
  const auto prepared = engine->prepare_weights(weights);

  const std::vector<int64_t> guess(spec.symbols.size(), size);
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::vector<float>> memory;  // this example knows float32 only
  std::vector<tv::HostTensor> inputs, outputs;
  memory.reserve(spec.inputs.size() + spec.outputs.size());
  const auto add = [&](const tv::Binding& binding, const std::vector<int64_t>& shape, float value) {
    if (binding.dtype != tv::DType::kF32) {
      throw tv::Error(tv::ErrorKind::kUser, "\"" + binding.name + "\" is not float32");
    }
    memory.emplace_back(numel(shape), value);
    return tv::HostTensor{memory.back().data(), static_cast<int64_t>(memory.back().size() * 4)};
  };
  for (const tv::Binding& input : spec.inputs) {
    shapes.push_back(evaluate(input.shape, guess));
    inputs.push_back(add(input, shapes.back(), 1.0f));
  }
  const std::vector<int64_t> symbols = engine->bind_shapes(shapes);
  for (const tv::Binding& output : spec.outputs) {
    outputs.push_back(add(output, evaluate(output.shape, symbols), 0.0f));
  }
  engine->run(*prepared, symbols, inputs, outputs);

  for (size_t i = 0; i < outputs.size(); ++i) {
    double sum = 0;
    for (const float value : memory[inputs.size() + i]) sum += value;
    std::cout << spec.outputs[i].name << ": " << sum << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: run_engine net.vke [size]\n";
    return 2;
  }
  try {
    return run(argv[1], argc > 2 ? std::atoll(argv[2]) : 1);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

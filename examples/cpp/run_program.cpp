// Runs a program that tv.save(..., output_format="torchscript") wrote, on an input of ones, and
// prints the sum of its first result. Linking libtorch_vulkan is all that it takes.
//
//   run_program net.pt 2 3 64 64

#include <torch/script.h>

#include <cstdlib>
#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: run_program net.pt size...\n";
    return 2;
  }
  try {
    std::vector<int64_t> shape;
    for (int i = 2; i < argc; ++i) shape.push_back(std::atoll(argv[i]));
    const c10::InferenceMode no_gradients;
    torch::jit::Module program = torch::jit::load(argv[1]);
    const c10::IValue result = program.forward({torch::ones(shape)});
    const at::Tensor first =
        result.isTuple() ? result.toTuple()->elements()[0].toTensor() : result.toTensor();
    std::cout << "shape: " << first.sizes() << "\nsum: " << first.sum().item<float>() << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

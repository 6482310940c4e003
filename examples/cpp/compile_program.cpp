// Compiles a TorchScript file (torch.jit.save's, of a traced or scripted module) for an input of
// ones of a size, says what became of it, and saves the result, which run_program runs. No Python.
//
//   compile_program net.pt compiled.pt 2 3 64 64

#include <python/bindings/script.h>
#include <torch/script.h>

#include <cstdlib>
#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: compile_program net.pt compiled.pt size...\n";
    return 2;
  }
  try {
    std::vector<int64_t> shape;
    for (int i = 3; i < argc; ++i) shape.push_back(std::atoll(argv[i]));
    torch::jit::Module module = torch::jit::load(argv[1]);
    module.eval();
    tv::script::Options options;
    options.settings = R"({"min_block_size": 1})";
    auto [compiled, engines, native, compute_nodes, covered_nodes, failures, reports] =
        tv::script::compile(module, {{torch::ones(shape)}}, options);
    std::cout << "engines: " << engines.size() << "\ncovered: " << covered_nodes << " of "
              << compute_nodes << "\n";
    for (const auto& node : native) std::cerr << node.op << ": " << node.reason << "\n";
    const torch::NoGradGuard no_gradients;
    const at::Tensor ours = compiled.forward({torch::ones(shape)}).toTensor();
    const at::Tensor theirs = module.forward({torch::ones(shape)}).toTensor();
    std::cout << "difference: " << (ours - theirs).abs().max().item<float>() << "\n";
    compiled.save(argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

#pragma once
// A module's forward as one graph without calls: what is compiled.

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

namespace tv::script {

struct Weight {
  torch::jit::Value* value;
  std::string path;  ///< "layer1.0.conv1.weight"
};

struct Prepared {
  torch::jit::Module module;                 ///< shares the tensors of the one it was made from
  std::shared_ptr<torch::jit::Graph> graph;  ///< of its forward
  std::vector<Weight> weights;  ///< parameters and buffers that forward reads and never sets
};

/// A copy of the module that has no method but forward: inlined, numbers among the attributes made
/// constants (as freezing does; tensors stay attributes), mutations and tuples removed where that
/// changes nothing. The given module stays as it is. Throws Error(kUser) without a forward.
Prepared prepare(const torch::jit::Module& module);

}  // namespace tv::script

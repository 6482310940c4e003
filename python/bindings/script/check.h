#pragma once
// What lets an engine for ranges of sizes be checked at run time (recording/sizes.h).

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "python/bindings/script/surgery.h"

namespace tv::script {

/// Gives `module` the method `call.method`, which runs the nodes of an excision on their own, and
/// returns the rule that it follows. Throws Error(kUnsupported) if PyTorch does other things
/// with tensors without data, or a size follows no rule. The nodes are still in their place.
std::string add_check(const Excision& excision, const EngineCall& call,
                      const ImportContext& context, Sizes& sizes, torch::jit::Module& module);

}  // namespace tv::script

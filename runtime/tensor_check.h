#pragma once
// The sizes of a caller's tensors.

#include <span>
#include <string>
#include <vector>

#include "runtime/engine_spec.h"
#include "runtime/error.h"

namespace tv {

/// Throws Error(kUser) naming the binding unless each tensor (HostTensor, CudaTensor) has the bytes
/// that `want` says, and memory for them.
template <typename Tensor>
void check_tensors(const EngineSpec& spec, const std::vector<Binding>& bindings, const char* what,
                   std::span<const Tensor> tensors, const std::vector<int64_t>& want) {
  const auto fail = [&](const std::string& text) {
    throw Error(ErrorKind::kUser, "[" + (spec.name.empty() ? "engine" : spec.name) + "] " + text);
  };
  if (tensors.size() != bindings.size()) {
    fail("got " + std::to_string(tensors.size()) + " " + what + "s, want " +
         std::to_string(bindings.size()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].size_bytes == want[i] && (tensors[i].data || want[i] == 0)) continue;
    fail(std::string(what) + " \"" + bindings[i].name + "\": got " +
         (tensors[i].data ? std::to_string(tensors[i].size_bytes) + " bytes" : "no memory") +
         ", want " + std::to_string(want[i]));
  }
}

}  // namespace tv

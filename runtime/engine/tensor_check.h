#pragma once
// The sizes and addresses of a caller's tensors.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/engine/engine.h"
#include "runtime/spec/engine_spec.h"

namespace tv {

/// What kernels may assume of a caller's tensor, in bytes.
inline constexpr uint64_t kTensorAlignment = 16;

/// Where a device with host pointers finds a tensor. An empty one has memory too: Mesa 25 loads
/// from an address that is the same for all invocations even where none of them asks for it.
inline uint64_t host_address(const HostTensor& tensor) {
  alignas(kTensorAlignment) static const std::array<std::byte, 4096> nothing{};
  return reinterpret_cast<uint64_t>(tensor.size_bytes == 0 ? nothing.data() : tensor.data);
}

/// True if an engine leaves a result in this tensor (inputs, then outputs).
inline bool is_written(const EngineSpec& spec, size_t slot) {
  return slot >= spec.inputs.size() || spec.inputs[slot].written;
}

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

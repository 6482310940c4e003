#pragma once
// The sizes and addresses of a caller's tensors.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/engine/host_tensors.h"
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

/// A tensor's bytes, and memory of it; none if a piece of it has none, or several are not the
/// host's.
inline HostTensor memory_of(std::span<const HostTensor> pieces) {
  if (pieces.size() == 1) return pieces.front();
  HostTensor memory;
  bool all = true;
  for (const HostTensor& piece : pieces) {
    memory.size_bytes += piece.size_bytes;
    if (piece.size_bytes == 0) continue;  // needs none
    all = all && piece.data;
    if (!memory.data) memory.data = piece.data;
  }
  if (!all) memory.data = nullptr;
  return memory;
}
inline const CudaTensor& memory_of(const CudaTensor& tensor) { return tensor; }

/// Throws Error(kUser) naming the binding unless each tensor (of HostTensors, or CudaTensor) has
/// the bytes that `want` says, and memory for them.
template <typename Tensors>
void check_tensors(const EngineSpec& spec, const std::vector<Binding>& bindings, const char* what,
                   const Tensors& tensors, const std::vector<int64_t>& want) {
  const auto fail = [&](const std::string& text) {
    throw Error(ErrorKind::kUser, "[" + (spec.name.empty() ? "engine" : spec.name) + "] " + text);
  };
  if (tensors.size() != bindings.size()) {
    fail("got " + std::to_string(tensors.size()) + " " + what + "s, want " +
         std::to_string(bindings.size()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto got = memory_of(tensors[i]);
    if (got.size_bytes == want[i] && (has_memory(got) || want[i] == 0)) continue;
    fail(std::string(what) + " \"" + bindings[i].name + "\": got " +
         (has_memory(got) ? std::to_string(got.size_bytes) + " bytes" : "no memory") + ", want " +
         std::to_string(want[i]));
  }
}

}  // namespace tv

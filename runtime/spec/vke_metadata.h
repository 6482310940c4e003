#pragma once
// The protobuf part of a .vke file: an EngineSpec without its SPIR-V.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/spec/engine_spec.h"
#include "runtime/spec/tensor.h"

namespace tv {

struct Metadata {
  EngineSpec spec;                     ///< `modules` is empty
  std::vector<uint64_t> module_words;  ///< length of each SPIR-V module
  std::vector<uint64_t> weight_bytes;  ///< length of each weight section; empty: stripped
};

/// Deterministic. Throws Error(kUser) if a weight's size is not its binding's.
std::string encode_metadata(const EngineSpec& spec, std::span<const HostTensor> weights);
/// Throws Error(kUser) on what encode_metadata cannot have written; memory stays within a small
/// multiple of the bytes. Indices and ranges are left to validate().
Metadata decode_metadata(std::span<const uint8_t> bytes);

/// Bytes of a weight. Throws Error(kUser) if its shape is not constant or too large.
uint64_t weight_bytes(const Binding& binding);

}  // namespace tv

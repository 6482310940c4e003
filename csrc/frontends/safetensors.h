#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/frontends/weight.h"

namespace tv {

struct StoredTensor {
  DType dtype = DType::kOther;
  std::vector<int64_t> shape;
  WeightBytes bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

/// A .safetensors file (https://github.com/huggingface/safetensors), mapped.
struct Safetensors {
  std::map<std::string, std::string> metadata;
  StoredTensors tensors;    ///< by name; those of types that engines do not hold are left out
  uint64_t data_bytes = 0;  ///< behind the header
};

/// The format's own bound on a header.
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

/// Throws Error(kUser) for a file that is none, or whose header is longer.
Safetensors read_safetensors(const std::string& path,
                             uint64_t most_header_bytes = kMostHeaderBytes);

/// What the format calls a type: "F32"; "" for kOther.
std::string_view safetensors_name(DType dtype);

}  // namespace tv

#pragma once
// What a model takes and gives, as Triton's configurations say it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/spec/engine_spec.h"

namespace tv::triton {

struct ServedTensor {
  std::string name;
  DType dtype = DType::kOther;
  std::vector<int64_t> dims;  ///< with the batch; -1: it varies
  bool text = false;          ///< of BYTES in place of a dtype
  bool optional = false;      ///< a request may lack it
};

struct Signature {
  std::vector<ServedTensor> inputs, outputs;
  /// Requests can be put together along dimension 0, up to so many rows in all; kUnbounded: any
  /// number. 0: they cannot.
  int64_t max_batch = 0;
  std::string why_no_batch;  ///< where it is 0
  bool streams = false;      ///< a request may have several responses
};

/// Of a model's shape profiles, one or more, which have the same inputs and outputs. Throws
/// Error(kUnsupported) for an engine that no server can call.
Signature signature_of(std::span<const EngineSpec* const> profiles);

}  // namespace tv::triton

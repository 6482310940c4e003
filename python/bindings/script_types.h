#pragma once
// torch's types and arguments as the compiler's.

#include <ATen/core/function_schema.h>

#include "csrc/graph/graph.h"
#include "python/bindings/script_record.h"

namespace tv::script {

/// kOther for what engines never hold. `truncate`: int64 and float64 as int32 and float32.
DType to_dtype(const TensorFact& fact, bool truncate);

bool takes_tensors(const c10::Argument& formal);

/// An argument that is no tensor. Throws Error(kUnsupported) for what has no form in the Graph.
Attr to_attr(const c10::Argument& formal, const c10::IValue& value, bool truncate);

/// The strides that an engine gives to a result which is this tensor in eager mode: its own where
/// they are dense, else dense ones in the same order of dimensions; empty: row-major.
std::vector<int64_t> promised_strides(const TensorFact& fact);

}  // namespace tv::script

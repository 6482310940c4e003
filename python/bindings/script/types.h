#pragma once
// torch's types and arguments as the compiler's.

#include <ATen/core/function_schema.h>

#include "csrc/graph/graph.h"
#include "python/bindings/script/import.h"

namespace tv::script {

/// kOther for what engines never hold.
DType to_dtype(const ObservedTensor& observed);

bool takes_tensors(const c10::Argument& formal);

/// An argument that is not a tensor. Throws Error(kUnsupported) for what has no form in the Graph.
Attr to_attr(const c10::Argument& formal, const c10::IValue& value);

/// The same of one that was seen in several executions. Integers become expressions of `sizes`;
/// what else differs among those that decide throws, too.
Attr to_attr(const c10::Argument& formal, const std::vector<c10::IValue>& values, size_t fitted,
             Sizes& sizes);

}  // namespace tv::script

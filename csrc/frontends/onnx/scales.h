#pragma once
// Scales of quantised tensors.

#include "csrc/frontends/onnx/context.h"

namespace tv::onnx {

/// Input i, a scale: throws Error(kUser), naming it, where its values are in the file and one is
/// zero, negative or no finite number.
const Tensor& scale_in(OpContext& c, size_t i);

}  // namespace tv::onnx

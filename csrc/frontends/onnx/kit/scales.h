#pragma once
// Scales of quantised tensors.

#include "csrc/frontends/onnx/file/small_float.h"
#include "csrc/frontends/onnx/kit/context.h"

namespace tv::onnx {

/// Input i, a scale of integers that are read: throws Error(kUser), naming it, where its values are
/// in the file and one is no finite number. Zero and negative ones are numbers like others.
const Tensor& scale_in(OpContext& c, size_t i);

/// Input i, the scale that floats are divided by to quantise them: as scale_in, and where one is
/// zero or negative.
const Tensor& step_in(OpContext& c, size_t i);

/// The numbers that a tensor of codes stands for, as float32; any other tensor itself.
Tensor decoded(Emitter& e, const Tensor& x);

/// x as numbers of an ONNX type of small floats, held as their codes. Refuses one that no casts to
/// are known of.
Tensor encoded(Emitter& e, const Tensor& x, int32_t onnx_type, bool saturate);

/// The low bits of integers: x, of an integer type, as `onnx_type`, one of integers that engines
/// hold in a wider type.
Tensor wrapped(Emitter& e, const Tensor& x, int32_t onnx_type);

}  // namespace tv::onnx

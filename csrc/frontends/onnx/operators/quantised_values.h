#pragma once
// Arithmetic of quantised tensors, as ONNX's operators define it.

#include "csrc/frontends/onnx/kit/context.h"

namespace tv::onnx {

/// (x - zero) · scale; without a zero point it is 0.
struct QuantisedValue {
  Tensor x, scale, zero;
};

/// Steps of float32, rounded to even, plus the zero point, clamped to what `dtype` holds.
Tensor stepped(Emitter& e, const Tensor& steps, const Tensor& zero, DType dtype);
/// x / scale, rounded to even, plus the zero point, clamped to what `dtype` holds. Scale and zero
/// point broadcast against x.
Tensor quantized(Emitter& e, const Tensor& x, const Tensor& scale, const Tensor& zero, DType dtype);
/// Of the scale's type, computed in float32.
Tensor dequantized(Emitter& e, const Tensor& x, const Tensor& scale, const Tensor& zero);
/// Zero points of 4-bit integers that packed_pairs has made unsigned; none: 8. Without any in the
/// file they are 0, before that.
Tensor unsigned_zero(Emitter& e, const Tensor& zero, const Tensor& scale, bool is_signed);
/// x as uint8, with the scale and zero point of its own range, which holds 0; zeros alone have the
/// scale 1.
QuantisedValue dynamically_quantized(Emitter& e, const Tensor& x);
/// (a - a_zero)(b - b_zero) in int32, as ONNX's MatMul: vectors are matrices of one row or column.
Tensor integer_matmul(Emitter& e, const Tensor& a, const Tensor& a_zero, const Tensor& b,
                      const Tensor& b_zero);
/// The product as floats of b's scale's type, with a bias where there is one. a has one scale, b
/// one or one for each column.
Tensor scaled_product(Emitter& e, const QuantisedValue& a, const QuantisedValue& b,
                      const Tensor& bias);

}  // namespace tv::onnx

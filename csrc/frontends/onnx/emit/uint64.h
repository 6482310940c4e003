#pragma once
// Numbers of type uint64 are held in int64, bit for bit. Sums, products, what moves data and bits
// alone are the same of both; what is not is here.

#include "csrc/frontends/onnx/emit/emit.h"

namespace tv::onnx {

inline bool is_uint64(const Tensor& x) { return is_uint64(x.widened); }

/// Integers in whose signed order the numbers are: their highest bit is the other one. Its own
/// inverse; a tensor of another type is returned as it is.
Tensor ordered(Emitter& e, const Tensor& x);

Tensor unsigned_quotient(Emitter& e, const Tensor& a, const Tensor& b);
Tensor unsigned_remainder(Emitter& e, const Tensor& a, const Tensor& b);
/// Zeros come in from above; by 0 to 63.
Tensor unsigned_shift_right(Emitter& e, const Tensor& x, const Tensor& by);

/// The numbers in a floating-point type, rounded once.
Tensor uint64_to_float(Emitter& e, const Tensor& x, DType to);
/// Floating-point numbers of less than 2^64 without their fractions, held in int64.
Tensor uint64_of_float(Emitter& e, const Tensor& x);

}  // namespace tv::onnx

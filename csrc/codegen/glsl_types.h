#pragma once
// How element types appear in GLSL: what is stored, what kernels compute with, and the conversions.

#include <string>

#include "runtime/base/dtype.h"

namespace tv {

/// The arithmetic that a value goes through: 16-bit floats compute as float, 8-32 bit integers as
/// int, bool as bool.
enum class GlslClass : uint8_t { kFloat, kInt, kInt64, kBool };

/// Throws Error(kInternal) for types that no kernel computes with (float64, complex).
GlslClass glsl_class(DType dtype);

/// Type of x_load's result: "float", "int" or "int64_t" (bool travels as int 0 or 1).
std::string glsl_type(DType dtype);
/// Type of a variable inside a pointwise program: as glsl_type, but "bool" for bool.
std::string glsl_value_type(DType dtype);
/// Type of one stored element: "float", "uint16_t" (both 16-bit floats), "int8_t", …
std::string glsl_storage_type(DType dtype);
/// The buffer-reference type declared in tv.glsl for arrays of that element: "tv_ref_f16".
std::string glsl_reference(DType dtype);

/// Text that converts `expr`, a stored element, to glsl_type.
std::string glsl_from_storage(const std::string& expr, DType dtype);
/// Text that rounds or wraps `expr` of glsl_type to a stored element (nearest, ties to even).
std::string glsl_to_storage(const std::string& expr, DType dtype);
/// Text that converts a program variable of type `from` to one of type `to`, as a torch cast does;
/// `round`: round to the precision of a 16-bit `to`.
std::string glsl_convert(const std::string& expr, DType from, DType to, bool round);

/// A literal of the class of `dtype` that equals `value` (rounded to float where it is a float).
std::string glsl_literal(double value, DType dtype);
std::string glsl_literal(int64_t value, DType dtype);

}  // namespace tv

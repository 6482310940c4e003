#pragma once
// PointwiseProgram → GLSL.

#include <string>

#include "csrc/graph/pointwise_program.h"

namespace tv {

/// A GLSL function `void <name>(T0 a0, T1 a1, …, out R0 r0, …)` that computes the program; types
/// are glsl_type of the inputs' and results' dtypes. 16-bit floats stay float between instructions
/// and are rounded only by an explicit cast and by the final store. Throws Error(kInternal) on an
/// unknown row, a wrong number of operands or a class that the row has no expression for.
std::string pointwise_function(const PointwiseProgram& program, const std::string& name);
/// The same on one line, as the value of a define.
std::string pointwise_line(const PointwiseProgram& program, const std::string& name);

/// dtype of operand number `operand` (an input or an instruction's result).
DType pointwise_dtype(const PointwiseProgram& program, int32_t operand);

}  // namespace tv

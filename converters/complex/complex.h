#pragma once
// Complex values are real ones with a last dimension of 2 (docs/design/0010-complex-values.md). An
// operator that reads or gives them is called complex::<name>; its argument "complex" names those
// of its tensor arguments that are complex, of a list of which some are each as <list>.<number>,
// and "result" where the result is.

#include <string>

#include "converters/kit/steps.h"
#include "csrc/rewriter.h"

namespace tv {

bool is_complex(const NodeContext& context, const std::string& name);
/// Number i of a list.
bool is_complex(const NodeContext& context, const std::string& name, size_t i);

/// The shape that torch sees of a complex value.
Shape without_pair(Shape shape);
Shape with_pair(Shape shape);

/// A constant of one value.
ValueId filled(Rewriter& rewriter, double value, DType dtype, const Shape& shape);
/// re + i im, which broadcast.
ValueId joined(Rewriter& rewriter, ValueId re, ValueId im);
/// Part 0 (real) or 1 of a complex value.
ValueId part(Rewriter& rewriter, ValueId pair, int64_t which);
/// A real value of `dtype` as a complex one.
ValueId with_zero(Rewriter& rewriter, ValueId re, DType dtype);
/// A tensor argument as a complex value of `dtype`, made one where it is real.
ValueId as_complex(const NodeContext& context, Rewriter& rewriter, const std::string& arg,
                   DType dtype);

}  // namespace tv

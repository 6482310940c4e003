#pragma once
// The compiler's own reduction, which ATen's expand into:
//   tv::reduce(self, kind, dims, divisor?)   kind: sum, prod, max, min, any, all
// over the dimensions `dims`; a sum may be divided by the integer `divisor` at the end. Floats
// accumulate in float32, integers in the output's type (extremes in their own).

#include <optional>
#include <string>
#include <vector>

#include "csrc/converter.h"
#include "csrc/rewriter.h"

namespace tv {

struct Reduction {
  std::string kind = "sum";
  std::vector<int64_t> dims;  ///< wrapped
  bool keepdim = false;
  std::optional<Expr> divisor = {};
};

/// Adds a tv::reduce node. The output's shape follows from the input's.
ValueId add_reduce(Rewriter& rewriter, ValueId self, const Reduction& reduction, DType dtype);

/// The dimensions that argument `arg` names, wrapped and ascending; all if it is None or empty.
std::vector<int64_t> reduced_dims(const NodeContext& context, const std::string& arg);

/// Number of elements in the given dimensions.
Expr count_in(const Shape& shape, const std::vector<int64_t>& dims);

}  // namespace tv

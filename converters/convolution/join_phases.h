#pragma once
// The phases of a transposed convolution of one or two dimensions, put in their places.

#include "csrc/rewriter.h"

namespace tv {

struct JoinedPhases {
  /// By the dimensions, phases with more taps first: [n][groups · phases · oc][rows]…, the ones
  /// with fewer taps with a row more, the first.
  std::vector<ValueId> tensors;
  std::vector<int64_t> stride;
  std::vector<int64_t> start;  ///< what of stride · rows comes before the result
  std::vector<int64_t> split;  ///< how many phases have more taps, or all
  std::vector<Expr> rows;
  Expr groups = 1;
};

/// tv::join_phases; the result is [n][groups · oc] ….
ValueId join_phases(Rewriter& rewriter, const JoinedPhases& joined, DType dtype, Shape shape);

}  // namespace tv

#pragma once
// Rows of neighbours chosen by indices on CPU drivers: the form that embedding, index_select, rows
// of gather and an index along one dimension share.

#include <string>

#include "converters/kit/steps.h"

namespace tv {

/// y[o, j, k] = x[o, index[o, j], k] for `inner` neighbours k.
struct RowChoice {
  ValueId x = kNoValue, index = kNoValue, y = kNoValue;
  DimSplit split = {};                   ///< of x at the dimension that is chosen from
  Expr entries = 0;                      ///< how many j there are
  Expr index_outer = 0, index_step = 0;  ///< strides of index in its storage, over o and j
  bool wraps = false;                    ///< negative indices count from the end
  std::string place;                     ///< place_function
};

/// The tactic "<family>_simd", refused where rows are short or not of neighbours.
Tactic choose_rows(const NodeContext& context, const Builder& builder, const RowChoice& choice,
                   const std::string& family);

}  // namespace tv

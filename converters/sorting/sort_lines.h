#pragma once
// Sorting along one dimension: tiles in shared memory, then merges. The number of launches depends
// on how long lines may become; merges that a shorter line does not need have empty grids.

#include <utility>
#include <vector>

#include "converters/kit/steps.h"

namespace tv {

/// Lines along one dimension, and how much of their order is wanted.
struct SortLines {
  Source x = {};
  DimSplit split = {};
  Expr limit = 0;  ///< elements of each sorted line
  DType dtype = DType::kOther;
  bool descending = false;

  Expr lines() const { return split.outer * split.inner; }
};

/// What sorted lines are in: keys and positions, in order from element `from` on.
struct SortedLines {
  ValueId keys = kNoValue, at = kNoValue;
  Expr from = 0;
  Expr pitch = 0;  ///< elements from one line to the next
  /// Operands keys and at, parameters rows, count, inner, from and pitch, and the defines of
  /// sort_key.glsl.
  void add_to(Step& step, const SortLines& lines) const;
};

/// The dimension that `dim` names, the last by default, and everything in one line without one.
SortLines sort_lines(const NodeContext& context);

/// Upper bound of a line's length.
int64_t longest(const NodeContext& context, const SortLines& lines);
/// 1 if runs of `run` elements have to be merged, else 0.
Expr is_needed(const Expr& size, int64_t run);
/// The defines of sort_key.glsl.
void add_key(Step& step, DType dtype, bool descending);

/// True if every line fits one tile, so that `sort_directly` applies.
bool is_one_tile(const NodeContext& context, const SortLines& lines);
/// One step that writes the first `limit` elements of each line, and their positions where wanted.
Step sort_directly(const NodeContext& context, const SortLines& lines, ValueId y, ValueId indices);

/// Appends the steps that sort the lines.
SortedLines sort(const NodeContext& context, Builder& builder, const SortLines& lines,
                 std::vector<Step>& steps);

}  // namespace tv

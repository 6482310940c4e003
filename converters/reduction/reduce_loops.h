#pragma once
// How reductions walk their input: which offsets belong to an output, in what order.

#include "converters/kit/rows.h"

namespace tv {

/// Kept dimensions number the outputs; the reduced ones are `rows` of runs of `run` elements,
/// `run_stride` apart. Both walks have the target "x".
struct ReduceLoops {
  LoopNest kept = {}, rows = {};
  Expr run = 1, run_stride = 0;

  Expr outputs() const { return kept.count(); }
  Expr length() const { return rows.count() * run; }
  RowShape row_shape(const Graph& graph) const;
  /// Adds outputs, length, run, run_stride, both walks and the define SINGLE_RUN.
  void add_to(Step& step) const { add_to(step, length()); }
  void add_to(Step& step,
              const Expr& counted) const;  ///< `counted`: length in what kernels step by
};

ReduceLoops reduce_loops(const Source& source, const std::vector<int64_t>& dims);

}  // namespace tv

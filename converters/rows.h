#pragma once
// How kernels that walk rows (reductions, softmax, norms) share a row between invocations.

#include <string>
#include <vector>

#include "converters/steps.h"

namespace tv {

/// One of: a row per invocation; a row per workgroup, combined through shared memory (by subgroups
/// first where their size is known); a row per workgroup of one subgroup, combined by shuffles (CPU
/// drivers, where barriers are dear).
struct RowStrategy {
  enum class Kind { kLane, kGroup, kSubgroup };
  Kind kind = Kind::kLane;
  uint32_t local = 64;
  uint32_t subgroup = 0;

  std::string suffix() const;  ///< for tactic names: "lane", "group256", "subgroup16"
  /// Sets the workgroup, the grid for `rows` rows, the loop iterations for `walked` elements (of all
  /// passes over a row), and the defines LANE, SUBGROUP and HYBRID.
  void apply(Step& step, const Expr& rows, const Expr& walked) const;
};

/// What decides: rows and length at typical sizes.
struct RowShape {
  int64_t rows = 1, length = 1;
  int64_t longest = 1;     ///< upper bound of the length; kUnbounded: none
  int64_t passes = 1;      ///< how often a kernel walks the row
  bool contiguous = true;  ///< a row's elements lie side by side
  bool shuffles = true;    ///< the kernel's state is of 32-bit words, as shuffles need
};

/// "" where rows of `length` elements, walked `passes` times by a subgroup, stay within what the
/// device's loops can do.
std::string row_too_long(const NodeContext& context, const Expr& length, int64_t passes);

/// Candidates, best first; the last is the reference, a row per invocation.
std::vector<RowStrategy> row_strategies(const DeviceProfile& device, const RowShape& shape);

}  // namespace tv

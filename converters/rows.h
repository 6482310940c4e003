#pragma once
// How kernels that walk rows (reductions, softmax, norms) share a row between invocations.

#include <string>
#include <vector>

#include "converters/steps.h"

namespace tv {

/// One of: a row per invocation; a row per workgroup combined through shared memory; a row per
/// workgroup of one subgroup, combined by shuffles (CPU drivers, where barriers are dear).
struct RowStrategy {
  enum class Kind { kLane, kGroup, kSubgroup };
  Kind kind = Kind::kLane;
  uint32_t local = 64;
  uint32_t subgroup = 0;

  std::string suffix() const;  ///< for tactic names: "lane", "group256", "subgroup16"
  /// Sets the workgroup, the grid for `rows` rows, and the defines LANE and SUBGROUP.
  void apply(Step& step, const Expr& rows) const;
};

/// What decides: all at typical sizes.
struct RowShape {
  int64_t rows = 1, length = 1;
  bool contiguous = true;   ///< a row's elements lie side by side
  bool shuffles = true;     ///< the kernel's state is of 32-bit words, as shuffles need
};

/// Candidates, best first; the last is the reference, a row per invocation.
std::vector<RowStrategy> row_strategies(const DeviceProfile& device, const RowShape& shape);

}  // namespace tv

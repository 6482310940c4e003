#pragma once
// How kernels over rows (reductions, softmax, norms) divide a row among invocations.

#include <string>
#include <vector>

#include "converters/kit/steps.h"

namespace tv {

/// A row for each invocation; or for each workgroup, combined through shared memory (within
/// subgroups first if their size is known); or for each subgroup, combined by shuffles.
struct RowStrategy {
  enum class Kind { kInvocation, kGroup, kSubgroup };
  Kind kind = Kind::kInvocation;
  uint32_t local = 64;
  uint32_t subgroup = 0;
  uint32_t keep = 0;  ///< vectors of its row that an invocation keeps in registers; 0: none

  uint32_t rows() const {
    return kind == Kind::kSubgroup ? local / subgroup : 1;
  }  ///< of a workgroup
  uint32_t row_lanes() const { return kind == Kind::kSubgroup ? subgroup : local; }
  std::string suffix() const;  ///< for tactic names: "invocation", "group256_keep1", "subgroup16"
  /// Sets the workgroup, the grid for `rows` rows, the loop iterations for `walked` elements (of
  /// all passes over a row), and the defines PER_INVOCATION, SUBGROUP, HYBRID, ROWS, ROW_LANES and
  /// KEEP.
  void apply(Step& step, const Expr& rows, const Expr& walked) const;
};

/// What the choice depends on: rows and length at typical sizes.
struct RowShape {
  int64_t rows = 1, length = 1;
  int64_t longest = 1;     ///< upper bound of the length; kUnbounded: none
  int64_t passes = 1;      ///< how often a kernel walks the row
  bool contiguous = true;  ///< a row's elements are neighbours
  bool shuffles = true;    ///< the kernel's state consists of 32-bit words, as shuffles need
  int64_t vectors = 0;  ///< of four elements in every row, for kernels that can keep them; else 0
};

/// Vectors of four in a row of `length` neighbours; 0 if that is not a fixed whole number.
int64_t whole_vectors(const Expr& length);

/// "" if rows of `length` elements, walked `passes` times by any workgroup of row_strategies(),
/// need no more loop iterations than the device can run, else the reason.
std::string row_too_long(const NodeContext& context, const Expr& length, int64_t passes);

/// Long rows of `count` neighbours on CPU drivers, in blocks (row_block.glsl). `segments` of a row
/// lie one after the other, each in blocks of its own.
struct RowBlocks {
  std::string refusal = {};  ///< why they do not apply, or ""
  Expr rows = {}, segments = {}, count = {}, blocks = {};
  int64_t width = 0;  ///< elements of a block

  Expr in_row() const { return segments * blocks; }
  /// A launch with a workgroup for each block, without operands: grid (blocks, segments, rows).
  /// `load` of i: elements i … i + LANES - 1 of x.
  Step each(const NodeContext& context, std::string kernel, std::string load) const;
  /// A launch with an invocation for each row, that loops over the row's blocks twice.
  Step merged(std::string kernel) const;
};
RowBlocks row_blocks(const NodeContext& context, Expr rows, Expr segments, Expr count);

/// Turns a step with the operands and parameters of a kernel that has a row of `length` neighbours
/// for each invocation into one of <kernel>_simd: a row for each subgroup of a CPU driver. Returns
/// "", or why that does not apply.
std::string make_row_simd(const NodeContext& context, const RowShape& shape, const Expr& rows,
                          const Expr& length, Step& step);

/// Candidates, best first; the last is the reference, a row per invocation.
std::vector<RowStrategy> row_strategies(const DeviceProfile& device, const RowShape& shape);

}  // namespace tv

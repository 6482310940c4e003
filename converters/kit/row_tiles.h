#pragma once
// Rows of results on CPU drivers, each of which is made of some rows of an input (glsl/span.glsl,
// glsl/row_tiles.glsl).

#include "converters/kit/steps.h"

namespace tv {

/// `planes` times `lines` rows of `width` results, from the rows of operand x.
struct RowTiles {
  Expr planes, lines, width;
  Expr in_width;          ///< elements of a row of x
  int64_t rows_read = 1;  ///< of x for a row of results
  /// The last of a vector of results reads at most so many elements past the first that the first
  /// one reads.
  int64_t reach = 0;
  bool moves_back = true;  ///< the last tiles of a row may begin anywhere
  bool dense = true;       ///< whether x lies as the kernel counts it, in fp32
};

/// Why such a kernel does not apply, or "".
std::string row_tiles_refusal(const NodeContext& context, const RowTiles& tiles);

/// Adds what the two files read: defines, parameters, the grid. Operands are x and y.
void add_row_tiles(const NodeContext& context, const RowTiles& tiles, Step& step);

}  // namespace tv

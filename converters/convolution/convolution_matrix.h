#pragma once
// Convolutions on matrix units: what the emission of steps and the rule share.

#include <vector>

#include "converters/convolution/convolution.h"
#include "converters/matmul/matrix_units.h"

namespace tv {

/// One way to tile a convolution; rows are output channels, columns pixels. The fields are macros
/// of conv_matrix.comp.
struct ConvTile {
  MatrixTile tile;
  int64_t ks = 1;  ///< steps of 16 k of a stage, of bytes 32
};

/// What a convolution of bytes has of its operands.
struct ConvIntegers {
  bool unsigned_x = false, unsigned_w = false;
};

/// Everything that the tactics of one convolution have in common.
struct ConvMatrixProblem {
  const NodeContext& c;
  Builder& b;
  const ConvShape& s;
  SplitPrecision precision;
  int64_t ic, oc, taps;
  bool flat;          ///< k runs over (ic, kh, kw) as they come
  bool x_last;        ///< the channels of a pixel are neighbours that can be read in chunks
  int64_t ic_chunks;  ///< of a tap
  int64_t steps;      ///< of 16 k, of bytes 32
  Expr columns;
  int64_t bytes = 0;      ///< operands are bytes: steps of k of a matrix, 32, 16
  bool y_pixels = false;  ///< results are stored by four channels of a pixel
  ConvIntegers integers = {};

  int64_t chunk() const { return bytes > 0 ? 2 * kChunk : kChunk; }
  bool is_scaled() const { return precision.scale == SplitPrecision::kRunning; }
  /// Stages of each of the subgroups that share k.
  int64_t share(const ConvTile& t) const { return div_up(div_up(steps, t.ks), t.tile.wk); }
  /// As the kernel declares it.
  int64_t shared_bytes(const ConvTile& t) const;
};

/// Tiles that a sweep on an H200 kept.
const std::vector<ConvTile>& conv_tiles(const SplitPrecision& precision);
/// Time that the rule expects of a tile.
double expected_us(const ConvMatrixProblem& q, const ConvTile& t);

}  // namespace tv

#pragma once
// Convolutions as nodes that expansions add.

#include <vector>

#include "csrc/converter.h"
#include "csrc/rewriter.h"

namespace tv {

/// The attributes of a convolution, one of each spatial dimension.
struct ConvGeometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  Expr groups = 1;
};

/// Those of the context's node, for `rank` spatial dimensions.
ConvGeometry conv_geometry_of(const NodeContext& context, size_t rank, bool transposed);

/// aten::convolution; `bias` may be kNoValue.
ValueId conv_of(Rewriter& rw, ValueId x, ValueId w, ValueId bias, const ConvGeometry& geometry,
                DType dtype, Shape shape);

/// Integers of 8 bits, and what makes floats of their sums: a scale for all output channels, or
/// one for each, as the bias has; zero points and the bias may be kNoValue.
struct ScaledConv {
  ValueId x = kNoValue, w = kNoValue, x_zero = kNoValue, w_zero = kNoValue, scale = kNoValue,
          bias = kNoValue;
};

/// tv::convolution_integer, scaled, with the bias added, rounded once to `dtype`.
ValueId scaled_conv_of(Rewriter& rw, const ScaledConv& conv, const ConvGeometry& geometry,
                       DType dtype, const Shape& shape);

/// Elements start … start + length - 1 of a dimension: `value` itself where these are all.
ValueId narrowed(Rewriter& rw, ValueId value, size_t dim, const Expr& start, const Expr& length);

/// aten::convolution with a stride and `transposed`, as convolutions of the input as it is
/// (convolution_phases.cpp). Leaves other nodes as they are.
void expand_phases(const NodeContext& context, Rewriter& rw);

}  // namespace tv

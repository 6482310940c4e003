#pragma once
// A convolution as its kernels see it.

#include <array>

#include "converters/matmul/simd/matmul_simd.h"

namespace tv {

/// Spatial dimensions are (d, h, w), the outer ones 1 if the convolution has fewer. A transposed
/// convolution is one with stride 1 of an input spread out `lhs` apart, with flipped weights.
struct ConvShape {
  Expr n, groups;
  Expr ic, oc;  ///< of one group
  std::array<Expr, 3> in, out;
  std::array<int64_t, 3> stride, dilation, lhs;
  std::array<Expr, 3> kernel, pad;
  Expr x_n, x_c;  ///< strides of the input
  std::array<Expr, 3> x_at;
  Expr w_0, w_g, w_oc, w_ic;  ///< first element and strides of the weight
  std::array<Expr, 3> w_at;
  ValueId x = kNoValue, w = kNoValue, bias = kNoValue;
  /// Of integers: subtracted from each element, one of all or one of each output channel.
  ValueId x_zero = kNoValue, w_zero = kNoValue;
  Expr w_zero_step;  ///< from one output channel's to the next

  /// Whether there are no more than two spatial dimensions.
  bool is_planar() const { return out[0] == Expr(1) && kernel[0] == Expr(1) && in[0] == Expr(1); }
  Expr pixels() const { return out[0] * out[1] * out[2]; }
  Expr taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// Loop iterations of conv_reference: four nested loops.
  Expr iterations() const { return ic * (1 + kernel[0] * (1 + kernel[1] * (1 + kernel[2]))); }
};

ConvShape conv_shape(const NodeContext& context, const Builder& builder);

/// Adds what conv_geometry.glsl and the kernels read: strides of the input, its zero point, sizes,
/// the window.
void add_geometry(Step& step, const ConvShape& shape, const std::string& dims);
/// Adds the strides of the weight, and its zero points.
void add_weight(Step& step, const ConvShape& shape, const std::string& dims);
/// Of two dimensions, or of three for kernels with `#ifdef DEPTH`.
void add_geometry(Step& step, const ConvShape& shape);
void add_weight(Step& step, const ConvShape& shape);

/// Tactics for CPU drivers (convolution_simd.cpp).
Tactic conv_simd_tactic(const NodeContext& context, Builder& builder, const ConvShape& shape);
Tactic conv_depthwise_tactic(const NodeContext& context, Builder& builder, const ConvShape& shape);

/// Tactics of transformed 3x3 windows, for CPU drivers (convolution_winograd.cpp).
std::vector<Tactic> conv_winograd_tactics(const NodeContext& context, Builder& builder,
                                          const ConvShape& shape);

/// Tactics for the device's matrix units, best first by rule; none if there are none or the
/// dtype has no such product (convolution_matrix.cpp).
std::vector<Tactic> conv_matrix_tactics(const NodeContext& context, Builder& builder,
                                        const ConvShape& shape);

/// The weight of a convolution of bytes in two dimensions: signed bytes in words of four channels,
/// the sums of its rows, and the launches that make them.
struct ConvWords {
  ValueId weight = kNoValue, sums = kNoValue;
  std::vector<Step> steps;
};
ConvWords conv_words(const NodeContext& context, Builder& builder, const ConvShape& shape);

/// Tactics of GPUs where each group has one input channel (convolution_depthwise.cpp).
std::vector<Tactic> conv_depthwise_tactics(const NodeContext& context, const Builder& builder,
                                           const ConvShape& shape);

}  // namespace tv

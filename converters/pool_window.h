#pragma once
// The window of a pooling operator, one- or two-dimensional.

#include "converters/steps.h"

namespace tv {

struct PoolWindow {
  /// Height and width; in one dimension the height is 1. {kernel, stride, padding, dilation}.
  Expr kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
};

/// From kernel_size, stride (default: kernel_size), padding and, where it is there, dilation.
PoolWindow window_of(const Node& node, int dims);

/// Sizes of the last `dims` dimensions as height and width, and the product of those before.
struct Planes {
  Expr count = 1, height = 1, width = 1;
  Expr elements() const { return count * height * width; }
};
Planes planes_of(const Shape& shape, int dims);

/// Adds height, width, out_height, out_width.
void add_plane_params(Step& step, const Planes& in, const Planes& out);
/// Adds kernel_h, …, pad_w; dilation_h and dilation_w where `dilation`.
void add_window_params(Step& step, const PoolWindow& window, bool dilation);

}  // namespace tv

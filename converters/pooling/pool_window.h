#pragma once
// The window of a pooling operator, one- or two-dimensional.

#include "converters/kit/steps.h"

namespace tv {

struct PoolWindow {
  /// Height and width; in one dimension the height is 1. {kernel, stride, padding, dilation}.
  Expr kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};

  /// Loop iterations of an output that walks its window, and of an element that asks each output
  /// whose window can hold it.
  Expr iterations() const { return kernel[0] * (kernel[1] + 1); }
  Expr reverse_iterations() const {
    return (ceil_div((kernel[0] - 1) * dilation[0], stride[0]) + 2) *
           (ceil_div((kernel[1] - 1) * dilation[1], stride[1]) + 3);
  }
};

/// From kernel_size, stride (default: kernel_size), padding and, where it is there, dilation.
PoolWindow window_of(const Node& node, int dims);

/// Sizes of the last `dims` dimensions as height and width, and the product of those before.
struct Planes {
  Expr count = 1, height = 1, width = 1;
  Expr elements() const { return count * height * width; }
};
/// Loop iterations of an output that walks the part of its window that lies in the input.
Expr clipped_iterations(const PoolWindow& window, const Planes& in);
/// Loop iterations of an element of `to` that walks the adaptive window in `from`.
Expr adaptive_iterations(const Planes& from, const Planes& to);

Planes planes_of(const Shape& shape, int dims);

/// Adds height, width, out_height, out_width.
void add_plane_params(Step& step, const Planes& in, const Planes& out);
/// Adds kernel_h, …, pad_w; dilation_h and dilation_w where `dilation`.
void add_window_params(Step& step, const PoolWindow& window, bool dilation);

/// What a kernel that looks for the largest compares elements of a dtype as: KEY, FLOAT_KEY,
/// LOWEST.
std::vector<std::pair<std::string, std::string>> key_defines(DType dtype);
/// Why elements of an input cannot be compared so, or "".
std::string numbers_only(const NodeContext& c, const std::string& arg);

}  // namespace tv

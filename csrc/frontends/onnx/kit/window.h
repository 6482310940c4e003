#pragma once
// Sizes of what slides a window: convolutions and pools.

#include "csrc/frontends/onnx/kit/context.h"

namespace tv::onnx {

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<Expr> before, after;  ///< padding of each dimension
  bool ceil_mode = false;
  bool symmetric() const;
};

/// From the attributes; `kernel` where kernel_shape is left out. auto_pad of symbolic sizes gives
/// symbolic padding.
Window read_window(const OpContext& c, const Shape& spatial, std::vector<int64_t> kernel);
/// Sizes of the result over the (unpadded) spatial sizes.
Shape window_sizes(Emitter& e, const Window& w, const Shape& spatial);
/// (last dimension first, before and after), as Emitter::pad takes them.
std::vector<Expr> torch_pads(const Window& w);

/// The convolution that a node's window asks for.
Tensor convolved(OpContext& c, Tensor x, const Tensor& weight, const Tensor& bias, int64_t groups);

/// The same of 8-bit integers less their zero points, in int32. Zero points are vectors: of one for
/// the input, of one or one a result's channel for the weight.
Tensor convolved_integers(OpContext& c, Tensor x, const Tensor& x_zero, const Tensor& weight,
                          const Tensor& weight_zero);

/// The means over a node's windows of x.
Tensor averaged(OpContext& c, const Tensor& x);

}  // namespace tv::onnx

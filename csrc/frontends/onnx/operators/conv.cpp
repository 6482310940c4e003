// Convolutions.

#include <algorithm>

#include "csrc/frontends/onnx/kit/window.h"

namespace tv::onnx {
namespace {

Shape spatial_of(const Tensor& x) {
  if (x.rank() < 3) throw Error(ErrorKind::kUser, "want an input of rank 3 or more");
  return {x.shape.begin() + 2, x.shape.end()};
}

std::vector<int64_t> kernel_of(const Tensor& weight) {
  std::vector<int64_t> kernel;
  for (int64_t d = 2; d < weight.rank(); ++d) {
    const auto size = weight.shape[static_cast<size_t>(d)].constant();
    if (!size) refuse("a weight of dynamic size");
    kernel.push_back(*size);
  }
  return kernel;
}

bool constant(const std::vector<Expr>& list) {
  for (const Expr& e : list) {
    if (!e.is_constant()) return false;
  }
  return true;
}

struct Product {
  std::vector<Expr> padding, output_padding;
  bool transposed = false;
  int64_t groups = 1;
  Shape shape;
};

Tensor convolution(Emitter& e, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Window& w, const Product& p) {
  return e.node("aten::convolution",
                {e.arg("input", x), e.arg("weight", weight), e.arg("bias", bias),
                 attr_arg("stride", exprs(w.strides)), attr_arg("padding", p.padding),
                 attr_arg("dilation", exprs(w.dilations)), attr_arg("transposed", p.transposed),
                 attr_arg("output_padding", p.output_padding), attr_arg("groups", Expr(p.groups))},
                x.dtype, p.shape);
}

void check_groups(int64_t groups, const Expr& channels, const Expr& others) {
  if (groups < 1 || groups > (1 << 24)) throw Error(ErrorKind::kUser, "groups");
  const auto a = channels.constant(), b = others.constant();
  if (!a || !b) refuse("a dynamic number of channels");
  if (*a != *b * groups) {
    throw Error(ErrorKind::kUser,
                "got " + std::to_string(*a) + " channels, want " + std::to_string(*b * groups));
  }
}

}  // namespace

namespace {

/// The product that a node's window asks for.
Product product_of(OpContext& c, const Tensor& x, const Tensor& weight, int64_t groups,
                   const Window& w) {
  if (w.kernel != kernel_of(weight))
    throw Error(ErrorKind::kUser, "kernel_shape is not the weight's");
  Product p{.groups = groups};
  check_groups(groups, x.shape[1], weight.shape[1]);
  const auto results = weight.shape[0].constant();
  if (!results) refuse("a dynamic number of channels");
  if (*results % p.groups != 0) throw Error(ErrorKind::kUser, "groups");
  const Shape spatial = spatial_of(x);
  p.shape = window_sizes(c.e, w, spatial);
  p.shape.insert(p.shape.begin(), {x.shape[0], weight.shape[0]});
  p.padding = w.before;
  p.output_padding.assign(spatial.size(), 0);
  return p;
}

Window window_of(OpContext& c, const Tensor& x, const Tensor& weight) {
  if (weight.rank() != x.rank()) throw Error(ErrorKind::kUser, "weight and input differ in rank");
  return read_window(c, spatial_of(x), kernel_of(weight));
}

/// Padding that the operator does not do itself.
bool pads_apart(const Window& w) { return !w.symmetric() || !constant(w.before); }

/// x with `zero`, a tensor of one element, around it; without it 0.
Tensor padded_by(Emitter& e, const Tensor& x, const Window& w, const Tensor& zero) {
  return zero.present ? e.pad(x, torch_pads(w), e.cast(zero, x.dtype)) : e.pad(x, torch_pads(w), 0);
}

}  // namespace

Tensor convolved(OpContext& c, Tensor x, const Tensor& weight, const Tensor& bias, int64_t groups) {
  const Window w = window_of(c, x, weight);
  if (weight.dtype != x.dtype) throw Error(ErrorKind::kUser, "weight and input differ in type");
  Product p = product_of(c, x, weight, groups, w);
  if (pads_apart(w)) {
    x = padded_by(c.e, x, w, {});
    p.padding.assign(p.padding.size(), 0);
  }
  return convolution(c.e, x, weight, bias, w, p);
}

Tensor convolved_integers(OpContext& c, Tensor x, const Tensor& x_zero, const Tensor& weight,
                          const Tensor& weight_zero) {
  const Window w = window_of(c, x, weight);
  Product p = product_of(c, x, weight, c.i("group", 1), w);
  if (pads_apart(w)) {
    x = padded_by(c.e, x, w, x_zero);
    p.padding.assign(p.padding.size(), 0);
  }
  return c.e.node("tv::convolution_integer",
                  {c.e.arg("input", x), c.e.arg("weight", weight), c.e.arg("input_zero", x_zero),
                   c.e.arg("weight_zero", weight_zero), attr_arg("stride", exprs(w.strides)),
                   attr_arg("padding", p.padding), attr_arg("dilation", exprs(w.dilations)),
                   attr_arg("groups", Expr(p.groups))},
                  DType::kI32, p.shape);
}

namespace {

void conv(OpContext& c) { c.out(0, convolved(c, c.in(0), c.in(1), c.maybe(2), c.i("group", 1))); }

// What is taken off the full result, (in - 1) stride + output_padding + (kernel - 1) dilation + 1.
void take_output_shape(OpContext& c, const Shape& spatial, const std::vector<int64_t>& extra,
                       Window& w) {
  const std::string mode = c.s("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  const std::vector<int64_t> wanted = c.ints("output_shape");
  if (!same && wanted.empty()) return;
  for (size_t d = 0; d < spatial.size(); ++d) {
    const Expr size = wanted.empty() ? spatial[d] * Expr(w.strides[d])
                                     : Expr(wanted.at(wanted.size() - spatial.size() + d));
    const Expr total = (spatial[d] - Expr(1)) * Expr(w.strides[d]) + Expr(extra[d]) +
                       Expr((w.kernel[d] - 1) * w.dilations[d] + 1) - size;
    const auto pads = total.constant();
    if (!pads) refuse("output_shape of a dynamic size");
    const int64_t half = *pads >= 0 ? *pads / 2 : -((1 - *pads) / 2);
    w.before[d] = mode == "SAME_UPPER" ? half : *pads - half;
    w.after[d] = mode == "SAME_UPPER" ? *pads - half : half;
  }
}

void conv_transpose(OpContext& c) {
  const Tensor &x = c.in(0), &weight = c.in(1);
  if (weight.rank() != x.rank()) throw Error(ErrorKind::kUser, "weight and input differ in rank");
  if (weight.dtype != x.dtype) throw Error(ErrorKind::kUser, "weight and input differ in type");
  const Shape spatial = spatial_of(x);
  Window w = read_window(c, spatial, kernel_of(weight));
  if (w.kernel != kernel_of(weight))
    throw Error(ErrorKind::kUser, "kernel_shape is not the weight's");
  std::vector<int64_t> extra = c.ints("output_padding");
  if (extra.empty()) extra.assign(spatial.size(), 0);
  if (extra.size() != spatial.size()) throw Error(ErrorKind::kUser, "output_padding");
  take_output_shape(c, spatial, extra, w);
  Product p{.transposed = true, .groups = c.i("group", 1)};
  const auto channels = x.shape[1].constant(), of_weight = weight.shape[0].constant();
  if (!channels || channels != of_weight || p.groups < 1 || *channels % p.groups != 0) {
    throw Error(ErrorKind::kUser, "the weight's channels are not the input's");
  }
  p.shape = {x.shape[0], weight.shape[1] * Expr(p.groups)};
  // aten pads evenly: the rest is cut off on one side, or added where nothing arrives.
  std::vector<int64_t> cut_before, cut_after;
  for (size_t d = 0; d < spatial.size(); ++d) {
    const auto before = w.before[d].constant(), after = w.after[d].constant();
    if (!before || !after) refuse("padding of a dynamic size");
    const int64_t even = std::max<int64_t>(0, std::min(*before, *after));
    p.padding.emplace_back(even);
    p.output_padding.emplace_back(0);
    cut_before.push_back(*before - even);
    cut_after.push_back(*after - even - extra[d]);
    p.shape.push_back((spatial[d] - Expr(1)) * Expr(w.strides[d]) +
                      Expr((w.kernel[d] - 1) * w.dilations[d] + 1) - Expr(2 * even));
    const int64_t limit = std::max(w.strides[d], w.dilations[d]);
    if (cut_after.back() < 0 && -cut_after.back() < limit) {
      p.output_padding.back() = -cut_after.back();
      p.shape.back() = p.shape.back() + p.output_padding.back();
      cut_after.back() = 0;
    }
    if (cut_before.back() < 0 || cut_after.back() < 0)
      refuse("an output larger than what it reaches");
  }
  Tensor y = convolution(c.e, x, weight, c.maybe(2), w, p);
  for (size_t d = 0; d < spatial.size(); ++d) {
    const Expr size = y.shape[d + 2];
    y = c.e.slice(y, static_cast<int64_t>(d) + 2, cut_before[d], size - Expr(cut_after[d]));
  }
  c.out(0, y);
}

const RegisterOnnx ops{{"Conv", conv}, {"ConvTranspose", conv_transpose}};

}  // namespace
}  // namespace tv::onnx

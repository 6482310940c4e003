// Convolutions by their other names, and their gradients, as aten::convolution.

#include <algorithm>
#include <numeric>

#include "converters/convolution/convolution_nodes.h"
#include "converters/convolution/convolution_types.h"
#include "converters/kit/flops.h"
#include "converters/kit/matmul_nodes.h"
#include "converters/kit/steps.h"

namespace tv {

namespace {

std::vector<int64_t> spread(const Node& node, const char* name, size_t rank, int64_t missing) {
  if (!node.has(name)) return std::vector<int64_t>(rank, missing);
  std::vector<int64_t> list = node.integers(name);
  if (list.size() == 1) list.resize(rank, list[0]);
  return list;
}

}  // namespace

ValueId conv_of(Rewriter& rw, ValueId x, ValueId w, ValueId bias, const ConvGeometry& g,
                DType dtype, Shape shape) {
  return rw.add("aten::convolution",
                {tensor_arg("input", x), tensor_arg("weight", w), tensor_arg("bias", bias),
                 attr_arg("stride", ints(g.stride)), attr_arg("padding", ints(g.padding)),
                 attr_arg("dilation", ints(g.dilation)), attr_arg("transposed", g.transposed),
                 attr_arg("output_padding", ints(g.output_padding)), attr_arg("groups", g.groups)},
                dtype, std::move(shape));
}

ConvGeometry conv_geometry_of(const NodeContext& c, size_t rank, bool transposed) {
  return {.stride = spread(c.node, "stride", rank, 1),
          .padding = spread(c.node, "padding", rank, 0),
          .dilation = spread(c.node, "dilation", rank, 1),
          .output_padding = spread(c.node, "output_padding", rank, 0),
          .transposed = transposed,
          .groups = c.node.has("groups") ? c.node.expr("groups") : Expr(1)};
}

ValueId narrowed(Rewriter& rw, ValueId v, size_t dim, const Expr& start, const Expr& length) {
  Shape shape = rw.graph().value(v).shape;
  if (shape[dim] == length) return v;
  shape[dim] = length;
  return rw.add(
      "aten::slice.Tensor",
      {tensor_arg("self", v), attr_arg("dim", Expr(static_cast<int64_t>(dim))),
       attr_arg("start", start), attr_arg("end", start + length), attr_arg("step", Expr(1))},
      rw.graph().value(v).dtype, shape);
}

namespace {

auto named(bool transposed) {
  return [transposed](const NodeContext& c, Rewriter& rw) {
    const ConvGeometry g =
        conv_geometry_of(c, c.shape("weight").size() - 2, transposed || c.node.flag("transposed"));
    rw.replace(0, conv_of(rw, c.node.input("input"), c.node.input("weight"), c.node.input("bias"),
                          g, c.output().dtype, c.output().shape));
  };
}

/// The batch and the channels change places.
ValueId swapped(Rewriter& rw, ValueId v) {
  std::vector<int64_t> dims(static_cast<size_t>(rw.graph().rank(v)));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[0], dims[1]);
  return rw.permute(v, dims);
}

/// image[n][g·ic][…] as [ic][g·n][…]: the channels of a group become the batch.
ValueId channels_first(Rewriter& rw, ValueId image, const Expr& groups) {
  if (groups == Expr(1)) return swapped(rw, image);
  const Shape x = rw.graph().value(image).shape;
  const Expr channels = floordiv(x[1], groups);
  Shape split{x[0], groups, channels}, merged{channels, groups * x[0]};
  std::vector<int64_t> dims = {2, 1, 0};
  for (size_t i = 2; i < x.size(); ++i) {
    split.push_back(x[i]);
    merged.push_back(x[i]);
    dims.push_back(static_cast<int64_t>(i) + 1);
  }
  return rw.reshape(rw.permute(rw.reshape(image, split), dims), merged);
}

/// Every `step`-th of `length` elements from `start`.
ValueId strided(Rewriter& rw, ValueId v, size_t dim, int64_t start, const Expr& length,
                int64_t step) {
  Shape shape = rw.graph().value(v).shape;
  shape[dim] = length;
  return rw.add("aten::slice.Tensor",
                {tensor_arg("self", v), attr_arg("dim", Expr(static_cast<int64_t>(dim))),
                 attr_arg("start", Expr(start)), attr_arg("end", (length - 1) * step + (start + 1)),
                 attr_arg("step", Expr(step))},
                rw.graph().value(v).dtype, shape);
}

/// [channels][everything else].
ValueId channel_rows(Rewriter& rw, ValueId v) {
  v = swapped(rw, v);
  const Shape shape = rw.graph().value(v).shape;
  return rw.reshape(v, {shape[0], product_of(shape, 1, shape.size())});
}

/// As weight_gradient for one group, by a product of matrices for each tap of a small window.
ValueId weight_gradient_by_taps(Rewriter& rw, ValueId image, ValueId kernel, const ConvGeometry& g,
                                const Shape& weight) {
  const size_t rank = g.stride.size();
  const Shape k = rw.graph().value(kernel).shape;
  const DType dtype = rw.graph().value(image).dtype;
  std::vector<Expr> pads;
  Shape padded = rw.graph().value(image).shape;
  for (size_t i = rank; i-- > 0;) {
    pads.insert(pads.end(), {Expr(g.padding[i]), Expr(g.padding[i])});
    padded[i + 2] += 2 * g.padding[i];
  }
  if (std::any_of(g.padding.begin(), g.padding.end(), [](int64_t p) { return p != 0; })) {
    image = rw.add("aten::constant_pad_nd",
                   {tensor_arg("self", image), attr_arg("pad", pads), attr_arg("value", 0.0)},
                   dtype, padded);
  }
  const ValueId left = channel_rows(rw, kernel);
  std::vector<ValueId> taps;
  const int64_t count = *product_of(weight, 2, weight.size()).constant();
  for (int64_t tap = 0; tap < count; ++tap) {
    ValueId seen = image;
    int64_t rest = tap;
    for (size_t i = rank; i-- > 0;) {
      const int64_t size = *weight[i + 2].constant(), at = rest % size;
      rest /= size;
      seen = strided(rw, seen, i + 2, at * g.dilation[i], k[i + 2], g.stride[i]);
    }
    const ValueId sums = matmul_of(rw, left, transposed(rw, channel_rows(rw, seen)), dtype);
    taps.push_back(rw.reshape(sums, {weight[0], weight[1], Expr(1)}));
  }
  if (count == 1) return rw.reshape(taps[0], weight);
  const ValueId all =
      rw.add("aten::cat", {tensor_list_arg("tensors", taps), attr_arg("dim", integer(2))}, dtype,
             {weight[0], weight[1], Expr(count)});
  return rw.reshape(all, weight);
}

/// Gradient of a weight [channels of kernel][channels of one group of image]: the two are
/// correlated channel by channel, so batch and channels change places, and stride and dilation do
/// too.
ValueId weight_gradient(Rewriter& rw, ValueId image, ValueId kernel, const ConvGeometry& g,
                        const Shape& weight) {
  constexpr int64_t kMaxTaps = 49;
  if (g.groups == Expr(1) && *product_of(weight, 2, weight.size()).constant() <= kMaxTaps) {
    return weight_gradient_by_taps(rw, image, kernel, g, weight);
  }
  const Shape x = rw.graph().value(image).shape, k = rw.graph().value(kernel).shape;
  const ConvGeometry swap{.stride = g.dilation,
                          .padding = g.padding,
                          .dilation = g.stride,
                          .output_padding = std::vector<int64_t>(g.stride.size(), 0),
                          .groups = g.groups};
  Shape out{floordiv(x[1], g.groups), k[1]};
  for (size_t i = 0; i < g.stride.size(); ++i) {
    const Expr reach = (k[i + 2] - 1) * g.stride[i] + 1;
    out.push_back(floordiv(x[i + 2] + Expr(2 * g.padding[i]) - reach, Expr(g.dilation[i])) + 1);
  }
  ValueId grad = conv_of(rw, channels_first(rw, image, g.groups), swapped(rw, kernel), kNoValue,
                         swap, rw.graph().value(image).dtype, out);
  grad = swapped(rw, grad);
  // A stride that does not divide leaves rows of the image that no output read.
  for (size_t i = 2; i < weight.size(); ++i) grad = narrowed(rw, grad, i, 0, weight[i]);
  return grad;
}

void backward(const NodeContext& c, Rewriter& rw) {
  const ValueId grad = c.node.input("grad_output"), x = c.node.input("input"),
                w = c.node.input("weight");
  const size_t rank = c.shape("weight").size() - 2;
  const ConvGeometry g = conv_geometry_of(c, rank, c.node.flag("transposed"));
  const auto& mask = std::get<std::vector<bool>>(c.node.arg("output_mask").attr);
  const Shape &xs = c.shape("input"), &ws = c.shape("weight"), &gs = c.shape("grad_output");
  if (mask.at(0)) {
    ConvGeometry inverse = g;
    inverse.transposed = !g.transposed;
    for (size_t i = 0; i < rank && inverse.transposed; ++i) {
      const int64_t k = *ws[i + 2].constant();
      const Expr least =
          (gs[i + 2] - 1) * g.stride[i] - 2 * g.padding[i] + g.dilation[i] * (k - 1) + 1;
      inverse.output_padding[i] = (xs[i + 2] - least).constant().value_or(0);
    }
    if (!inverse.transposed) inverse.output_padding.assign(rank, 0);
    rw.replace(0, conv_of(rw, grad, w, kNoValue, inverse, c.output(0).dtype, xs));
  }
  if (mask.at(1)) {
    rw.replace(1, g.transposed ? weight_gradient(rw, grad, x, g, ws)
                               : weight_gradient(rw, x, grad, g, ws));
  }
  if (mask.at(2)) {
    std::vector<int64_t> dims = {0};
    for (size_t i = 0; i < rank; ++i) dims.push_back(static_cast<int64_t>(i) + 2);
    rw.replace(2, rw.add("aten::sum.dim_IntList",
                         {tensor_arg("self", grad), attr_arg("dim", ints(dims)),
                          attr_arg("keepdim", false)},
                         c.output(2).dtype, {gs[1]}));
  }
}

std::string floats(const NodeContext& c) { return floats_only(c, "weight"); }

std::string backward_refusal(const NodeContext& c) {
  for (const Expr& k : c.shape("weight")) {
    if (!k.is_constant()) return "[" + c.node.op + "] the weight's shape is symbolic";
  }
  return floats(c);
}

Converter entry(std::string op, bool transposed) {
  return {.op = std::move(op),
          .unsupported = floats,
          .expand = named(transposed),
          .flops = transposed ? flops_of_transposed : flops_of_convolution};
}

/// One of so many dimensions whose arguments are aten::convolution's.
Converter entry(std::string op, size_t dims) {
  Converter made = typed(entry(std::move(op), false), types::convolution(dims, false));
  made.convolves = true;
  return made;
}

const RegisterConverter convolutions{
    typed(entry("aten::_convolution", false), types::any_convolution),
    entry("aten::conv1d", size_t{1}),
    entry("aten::conv2d", size_t{2}),
    entry("aten::conv3d", size_t{3}),
    typed(entry("aten::conv_transpose1d", true), types::convolution(1, true)),
    typed(entry("aten::conv_transpose2d.input", true), types::convolution(2, true)),
    typed(entry("aten::conv_transpose3d.input", true), types::convolution(3, true)),
    {.op = "aten::convolution_backward",
     .unsupported = backward_refusal,
     .expand = backward,
     .flops = flops_of_convolution_backward,
     .types = types::convolution_backward},
};

}  // namespace
}  // namespace tv

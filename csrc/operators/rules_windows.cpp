// Convolutions, pools, padding, resampling: operators on pictures of one to three dimensions.

#include <optional>

#include "csrc/operators/rules.h"

namespace tv {
namespace {

/// Sizes of a picture behind those of its batch and channels.
Shape spatial(const Shape& shape, size_t dims) {
  return Shape(shape.end() - static_cast<std::ptrdiff_t>(dims), shape.end());
}

Shape leading(const Shape& shape, size_t dims) {
  return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(dims));
}

Shape joined_shape(Shape lead, const Shape& rest) {
  lead.insert(lead.end(), rest.begin(), rest.end());
  return lead;
}

/// Channels and pictures of `dims` dimensions, with or without a batch.
Shape picture(const NodeTypes& t, const char* arg, size_t dims) {
  Shape shape = t.shape(arg);
  t.want(shape.size() == dims + 1 || shape.size() == dims + 2,
         std::string("argument '") + arg + "' is of rank " + std::to_string(shape.size()));
  return shape;
}

/// What a window's steps give along each dimension.
struct Window {
  std::vector<Expr> kernel = {}, stride = {}, padding = {}, dilation = {};
};

void check_window(NodeTypes& t, const Window& w) {
  t.positive(w.kernel, "a size of the kernel");
  t.positive(w.stride, "a stride");
  t.positive(w.dilation, "a dilation");
  for (const Expr& padding : w.padding) t.at_least(padding, 0, "a padding");
}

// --- convolutions ---

Shape convolved(NodeTypes& t, bool transposed) {
  const Shape weight = t.shape("weight");
  t.want(weight.size() >= 3 && weight.size() <= 5,
         "argument 'weight' is of rank " + std::to_string(weight.size()));
  const size_t dims = weight.size() - 2;
  const Shape in = picture(t, "input", dims);
  const Window w{.kernel = spatial(weight, dims),
                 .stride = t.list("stride", dims),
                 .padding = t.list("padding", dims),
                 .dilation = t.list("dilation", dims)};
  check_window(t, w);
  const Expr groups = t.expr("groups", 1);
  t.at_least(groups, 1, "argument 'groups'");
  const Expr channels = in[in.size() - dims - 1];
  const Expr want = transposed ? weight[0] : weight[1] * groups;
  t.equal(channels, want, "the number of channels");
  t.equal(mod(weight[0], groups), 0, "what is left of the channels");
  const Expr out_channels = transposed ? weight[1] * groups : weight[0];
  if (t.has("bias")) t.equal(t.shape("bias"), {out_channels}, "argument 'bias'");
  Shape made = leading(in, dims + 1);
  made.push_back(out_channels);
  for (size_t i = 0; i < dims; ++i) {
    const Expr size = in[in.size() - dims + i], reach = w.dilation[i] * (w.kernel[i] - 1);
    if (transposed) {
      const Expr more = t.list("output_padding", dims)[i];
      t.at_least(more, 0, "an output padding");
      made.push_back((size - 1) * w.stride[i] - w.padding[i] * 2 + reach + more + 1);
    } else {
      made.push_back(floordiv(size + w.padding[i] * 2 - reach - 1, w.stride[i]) + 1);
    }
  }
  return made;
}

TypeRule convolution(size_t dims, bool transposed) {
  return [=](NodeTypes& t) {
    t.want(t.rank("weight") == static_cast<int64_t>(dims) + 2, "the weight is of another rank");
    t.gives(convolved(t, transposed));
  };
}

void any_convolution(NodeTypes& t) { t.gives(convolved(t, t.node().flag("transposed"))); }

void convolution_backward(NodeTypes& t) {
  const Shape made = convolved(t, t.node().flag("transposed"));
  t.equal(t.shape("grad_output"), made, "argument 'grad_output'");
  t.gives(t.shape("input"), 0);
  t.gives(t.shape("weight"), 1);
  t.gives({made[made.size() - static_cast<size_t>(t.rank("weight")) + 1]}, 2);
}

void integer_convolution(NodeTypes& t) {
  const Shape made = convolved(t, false);
  if (t.has("input_zero")) t.equal(product(t.shape("input_zero")), 1, "the input's zero points");
  if (t.has("weight_zero")) {
    const Expr count = product(t.shape("weight_zero"));
    if (!(count == Expr(1))) t.equal(count, t.shape("weight")[0], "the weight's zero points");
  }
  t.gives(made);
}

// --- pools ---

/// A size after a pool; nothing where it depends on symbols whether a last window counts.
std::optional<Expr> pooled(const Expr& in, const Window& w, size_t i, bool ceil) {
  const Expr reach = w.dilation[i] * (w.kernel[i] - 1);
  const Expr room = in + w.padding[i] * 2 - reach - 1;
  if (!ceil) return floordiv(room, w.stride[i]) + 1;
  const Expr more = floordiv(room + w.stride[i] - 1, w.stride[i]) + 1;
  const auto last = ((more - 1) * w.stride[i]).constant();
  const auto end = (in + w.padding[i]).constant();
  if (!last || !end) return std::nullopt;
  return *last >= *end ? more - 1 : more;
}

/// The shape of a pool's result; `known` where a size cannot be told.
Shape pooled_shape(NodeTypes& t, size_t dims, const Shape& known) {
  const Shape in = picture(t, "self", dims);
  t.want(known.size() == in.size(), "a pool of another rank");
  Window w{.kernel = t.list("kernel_size", dims),
           .padding =
               t.node().has("padding") ? t.list("padding", dims) : std::vector<Expr>(dims, Expr(0)),
           .dilation = t.node().has("dilation") ? t.list("dilation", dims)
                                                : std::vector<Expr>(dims, Expr(1))};
  w.stride = t.node().exprs("stride").empty() ? w.kernel : t.list("stride", dims);
  check_window(t, w);
  Shape made = leading(in, dims);
  for (size_t i = 0; i < dims; ++i) {
    const size_t at = in.size() - dims + i;
    made.push_back(pooled(in[at], w, i, t.node().flag("ceil_mode")).value_or(known[at]));
  }
  return made;
}

TypeRule pool(size_t dims) {
  return [dims](NodeTypes& t) {
    for (size_t i = 0; i < t.results(); ++i) {
      if (t.has_result(i)) t.gives(pooled_shape(t, dims, t.result(i)), i);
    }
  };
}

void check_indices(NodeTypes& t) {
  if (t.has("indices")) {
    t.equal(t.shape("indices"), t.shape("grad_output"), "argument 'indices'");
  }
}

TypeRule pool_backward(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape grad = t.shape("grad_output");
    t.equal(grad, pooled_shape(t, dims, grad), "argument 'grad_output'");
    check_indices(t);
    t.gives(t.shape("self"));
  };
}

TypeRule adaptive_pool(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape in = picture(t, "self", dims);
    t.positive(spatial(in, dims), "a size of the picture");
    const Shape made = joined_shape(leading(in, dims), t.list("output_size", dims));
    for (size_t i = 0; i < t.results(); ++i) t.gives(made, i);
  };
}

TypeRule adaptive_pool_backward(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape in = picture(t, "self", dims), grad = picture(t, "grad_output", dims);
    t.equal(leading(grad, dims), leading(in, dims), "the batch of argument 'grad_output'");
    check_indices(t);
    t.gives(in);
  };
}

// --- resampling ---

const char* picture_arg(const NodeTypes& t) {
  return t.node().find("self") != nullptr ? "self" : "input";
}

TypeRule upsample(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape in = t.shape(picture_arg(t));
    t.want(in.size() == dims + 2, "the picture is of rank " + std::to_string(in.size()));
    t.positive(spatial(in, dims), "a size of the picture");
    if (!t.has_result(0)) return;
    t.want(t.result().size() == in.size(), "the result has another rank");
    // Of factors PyTorch computes the sizes in floating point.
    const Shape sizes =
        t.has("output_size") ? t.list("output_size", dims) : spatial(t.result(), dims);
    t.positive(sizes, "a size of the result");
    t.gives(joined_shape(leading(in, dims), sizes));
    if (t.has("scale_factors")) {
      const auto* factors = std::get_if<std::vector<double>>(&t.node().arg("scale_factors").attr);
      t.want(factors == nullptr || factors->size() == dims, "wants a factor for each dimension");
    }
  };
}

TypeRule upsample_backward(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape grad = t.shape("grad_output"), in = t.node().exprs("input_size");
    t.want(grad.size() == dims + 2 && in.size() == dims + 2, "a picture is of another rank");
    t.positive(spatial(in, dims), "a size of the picture");
    t.equal(leading(grad, dims), leading(in, dims), "the batch of argument 'grad_output'");
    t.equal(spatial(grad, dims), t.list("output_size", dims), "argument 'grad_output'");
    t.gives(in);
  };
}

TypeRule sampled(size_t dims) {
  return [dims](NodeTypes& t) {
    t.positive(spatial(t.shape("input"), dims), "a size of the picture");
  };
}

// --- padding ---

Shape padded(NodeTypes& t, const Shape& in, const char* arg) {
  const std::vector<Expr> pads = t.node().exprs(arg);
  t.want(pads.size() % 2 == 0 && pads.size() <= 2 * in.size(),
         std::string("argument '") + arg + "' has " + std::to_string(pads.size()) + " items");
  Shape made = in;
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    Expr& size = made[made.size() - 1 - i];
    size = size + pads[2 * i] + pads[2 * i + 1];
  }
  return made;
}

/// Pads by what the picture has: pads are as many as its edges.
Shape padded_by_edges(NodeTypes& t, size_t dims, bool reflects) {
  const Shape in = picture(t, "self", dims);
  const std::vector<Expr> pads = t.node().exprs("padding");
  t.want(pads.size() == 2 * dims, "has " + std::to_string(pads.size()) + " paddings");
  for (size_t i = 0; i < dims; ++i) {
    const Expr& size = in[in.size() - 1 - i];
    t.at_least(size, 1, "a size of the picture");
    for (size_t side = 0; reflects && side < 2; ++side) {
      t.at_least(size - 1, pads[2 * i + side], "a size of the picture less one");
    }
  }
  return padded(t, in, "padding");
}

TypeRule edge_pad(size_t dims, bool reflects) {
  return [=](NodeTypes& t) { t.gives(padded_by_edges(t, dims, reflects)); };
}

TypeRule edge_pad_backward(size_t dims) {
  return [dims](NodeTypes& t) {
    t.equal(t.shape("grad_output"), padded_by_edges(t, dims, false), "argument 'grad_output'");
    t.gives(t.shape("self"));
  };
}

}  // namespace

void add_window_rules(TypeRules& rules) {
  rules.add("convolution _convolution", any_convolution);
  rules.add("convolution_backward", convolution_backward);
  rules.add("tv::convolution_integer", integer_convolution);
  const char* const convolutions[] = {"conv1d", "conv2d", "conv3d"};
  const char* const transposed[] = {"conv_transpose1d", "conv_transpose2d.input",
                                    "conv_transpose3d.input"};
  for (size_t i = 0; i < 3; ++i) {
    rules.add(convolutions[i], convolution(i + 1, false));
    rules.add(transposed[i], convolution(i + 1, true));
  }

  rules.add("avg_pool1d max_pool1d max_pool1d_with_indices", pool(1));
  rules.add("avg_pool2d max_pool2d max_pool2d_with_indices", pool(2));
  rules.add("avg_pool3d max_pool3d_with_indices", pool(3));
  rules.add("avg_pool2d_backward max_pool2d_with_indices_backward", pool_backward(2));
  rules.add("avg_pool3d_backward max_pool3d_with_indices_backward", pool_backward(3));
  rules.add("adaptive_avg_pool1d", adaptive_pool(1));
  rules.add("adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d", adaptive_pool(2));
  rules.add("_adaptive_avg_pool3d adaptive_max_pool3d", adaptive_pool(3));
  rules.add("_adaptive_avg_pool2d_backward adaptive_max_pool2d_backward",
            adaptive_pool_backward(2));
  rules.add("_adaptive_avg_pool3d_backward adaptive_max_pool3d_backward",
            adaptive_pool_backward(3));

  rules.add(
      "upsample_linear1d upsample_linear1d.vec upsample_nearest1d upsample_nearest1d.vec "
      "_upsample_nearest_exact1d _upsample_nearest_exact1d.vec",
      upsample(1));
  rules.add(
      "upsample_bilinear2d upsample_bilinear2d.vec upsample_bicubic2d upsample_bicubic2d.vec "
      "upsample_nearest2d upsample_nearest2d.vec _upsample_nearest_exact2d "
      "_upsample_nearest_exact2d.vec _upsample_bilinear2d_aa _upsample_bilinear2d_aa.vec "
      "_upsample_bicubic2d_aa _upsample_bicubic2d_aa.vec _upsample_lanczos2d_aa "
      "_upsample_lanczos2d_aa.vec",
      upsample(2));
  rules.add(
      "upsample_trilinear3d upsample_trilinear3d.vec upsample_nearest3d upsample_nearest3d.vec "
      "_upsample_nearest_exact3d _upsample_nearest_exact3d.vec",
      upsample(3));
  rules.add(
      "upsample_linear1d_backward upsample_nearest1d_backward _upsample_nearest_exact1d_backward",
      upsample_backward(1));
  rules.add(
      "upsample_bilinear2d_backward upsample_bicubic2d_backward upsample_nearest2d_backward "
      "_upsample_nearest_exact2d_backward _upsample_bilinear2d_aa_backward "
      "_upsample_bicubic2d_aa_backward _upsample_lanczos2d_aa_backward",
      upsample_backward(2));
  rules.add(
      "upsample_trilinear3d_backward upsample_nearest3d_backward "
      "_upsample_nearest_exact3d_backward",
      upsample_backward(3));
  rules.add("grid_sampler_2d",
            pattern("input T[n c . .], grid T[n h w 2] -> [n c h w]") & sampled(2));
  rules.add("grid_sampler_3d",
            pattern("input T[n c . . .], grid T[n d h w 3] -> [n c d h w]") & sampled(3));
  rules.add("grid_sampler_2d_backward",
            pattern("input [n c a b], grid [n h w 2], grad_output [n c h w] -> "
                    "[n c a b], [n h w 2]") &
                sampled(2));
  rules.add("grid_sampler_3d_backward",
            pattern("input [n c a b e], grid [n d h w 3], grad_output [n c d h w] -> "
                    "[n c a b e], [n d h w 3]") &
                sampled(3));

  rules.add("constant_pad_nd", [](NodeTypes& t) { t.gives(padded(t, t.shape("self"), "pad")); });
  rules.add("reflection_pad1d", edge_pad(1, true));
  rules.add("reflection_pad2d", edge_pad(2, true));
  rules.add("replication_pad1d", edge_pad(1, false));
  rules.add("replication_pad2d", edge_pad(2, false));
  rules.add("replication_pad3d", edge_pad(3, false));
  rules.add("replication_pad1d_backward", edge_pad_backward(1));
  rules.add("replication_pad2d_backward", edge_pad_backward(2));
  rules.add("replication_pad3d_backward", edge_pad_backward(3));
}

}  // namespace tv

// Pooling.

#include <algorithm>
#include <cmath>

#include "csrc/frontends/onnx/kit/window.h"

namespace tv::onnx {
namespace {

Shape spatial_of(const Tensor& x) {
  if (x.rank() < 3) throw Error(ErrorKind::kUser, "want an input of rank 3 or more");
  return {x.shape.begin() + 2, x.shape.end()};
}

// aten has pools of 2 and 3 dimensions; one of 1 is one of 2 with a height of 1.
struct Flat {
  Tensor x;
  Window w;
  bool lifted = false;
};

Flat lift(OpContext& c, Tensor x, Window w) {
  if (w.kernel.size() == 1) {
    x = c.e.unsqueeze(x, 2);
    for (auto* list : {&w.kernel, &w.strides, &w.dilations}) list->insert(list->begin(), 1);
    for (auto* list : {&w.before, &w.after}) list->insert(list->begin(), Expr(0));
    return {x, w, true};
  }
  if (w.kernel.size() > 3) refuse("pools of more than 3 dimensions");
  return {x, w, false};
}

Tensor lower(OpContext& c, const Flat& flat, const Tensor& y) {
  return flat.lifted ? c.e.squeeze(y, 2) : y;
}

// aten pads evenly, by at most half of the window. Elsewhere the input is padded with what does not
// change the result, up to where the last window ends.
bool fits_aten(const Window& w) {
  for (size_t d = 0; d < w.kernel.size(); ++d) {
    const auto pad = w.before[d].constant();
    if (!pad || *pad * 2 > w.kernel[d]) return false;
  }
  return w.symmetric();
}

Tensor pad_for(OpContext& c, Flat& flat, double value) {
  Window& w = flat.w;
  const Shape spatial = spatial_of(flat.x), sizes = window_sizes(c.e, w, spatial);
  Window filled = w;
  for (size_t d = 0; d < spatial.size(); ++d) {
    const Expr reach =
        (sizes[d] - Expr(1)) * Expr(w.strides[d]) + Expr((w.kernel[d] - 1) * w.dilations[d] + 1);
    filled.after[d] = max(w.after[d], reach - spatial[d] - w.before[d]);
  }
  const Tensor padded = c.e.pad(flat.x, torch_pads(filled), value);
  w.before.assign(spatial.size(), 0);
  w.after.assign(spatial.size(), 0);
  w.ceil_mode = false;
  return padded;
}

double lowest(DType dtype) {
  if (is_float(dtype)) return -HUGE_VAL;
  const bool is_signed = dtype != DType::kU8 && dtype != DType::kBool;
  return is_signed ? -std::ldexp(1.0, 8 * static_cast<int>(size_bytes(dtype)) - 1) : 0;
}

// Places of the maxima as ONNX has them: over the whole tensor, of the input as it was given.
Tensor places(OpContext& c, const Tensor& in_plane, const Shape& padded, const Shape& spatial,
              const std::vector<Expr>& before) {
  Emitter& e = c.e;
  const DType dtype = in_plane.dtype;
  const auto number = [&](const Expr& value) {
    Host host{.dtype = dtype};
    host.ints = {value};
    return e.from_host(std::move(host));
  };
  Tensor left = in_plane, place;
  std::vector<Tensor> coordinates(spatial.size());
  for (size_t d = spatial.size(); d-- > 0;) {
    coordinates[d] = e.sub(e.binary("remainder", left, number(padded[d])), number(before[d]));
    if (d > 0) left = e.divide(left, number(padded[d]), "floor");
  }
  const bool columns = c.i("storage_order", 0) != 0;
  Expr stride = 1;
  for (size_t k = 0; k < spatial.size(); ++k) {
    const size_t d = columns ? k : spatial.size() - 1 - k;
    const Tensor term = e.mul(coordinates[d], number(stride));
    place = place.present ? e.add(place, term) : term;
    stride = stride * spatial[d];
  }
  const Expr n = in_plane.shape[0], channels = in_plane.shape[1];
  Tensor plane = e.arange(n * channels, dtype);
  Shape shape(in_plane.shape.size(), Expr(1));
  shape[0] = n;
  shape[1] = channels;
  plane = e.reshape(e.mul(plane, number(product(spatial))), shape);
  return e.add(place, plane);
}

void max_pool(OpContext& c) {
  const Tensor& x = c.in(0);
  Flat flat = lift(c, x, read_window(c, spatial_of(x), {}));
  const Shape spatial = spatial_of(flat.x), sizes = window_sizes(c.e, flat.w, spatial);
  const std::vector<Expr> before = flat.w.before;
  const bool even = fits_aten(flat.w) && is_float(x.dtype);
  const bool as_is = even || (flat.w.symmetric() && before == std::vector<Expr>(before.size()) &&
                              !flat.w.ceil_mode);
  if (!as_is) flat.x = pad_for(c, flat, lowest(x.dtype));
  const Shape read = spatial_of(flat.x);
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  const std::string op =
      flat.w.kernel.size() == 3 ? "aten::max_pool3d_with_indices" : "aten::max_pool2d_with_indices";
  const DType wide = is_integer(x.dtype) ? DType::kI32 : x.dtype;
  const Tensor source = c.e.cast(flat.x, wide);
  const auto made = c.e.nodes(
      op,
      {c.e.arg("self", source), attr_arg("kernel_size", exprs(flat.w.kernel)),
       attr_arg("stride", exprs(flat.w.strides)), attr_arg("padding", flat.w.before),
       attr_arg("dilation", exprs(flat.w.dilations)), attr_arg("ceil_mode", flat.w.ceil_mode)},
      {{wide, shape}, {DType::kI64, shape}});
  c.out(0, lower(c, flat, c.e.cast(made[0], x.dtype)));
  if (c.wants(1)) {
    const std::vector<Expr> shift = as_is ? std::vector<Expr>(before.size()) : before;
    c.out(1, lower(c, flat, places(c, made[1], read, spatial, shift)));
  }
}

Tensor average(OpContext& c, const Tensor& x, const Window& w, const Shape& shape, bool with_pads,
               const Attr& divisor) {
  const std::string op = w.kernel.size() == 3 ? "aten::avg_pool3d" : "aten::avg_pool2d";
  return c.e.node(op,
                  {c.e.arg("self", x), attr_arg("kernel_size", exprs(w.kernel)),
                   attr_arg("stride", exprs(w.strides)), attr_arg("padding", w.before),
                   attr_arg("ceil_mode", w.ceil_mode), attr_arg("count_include_pad", with_pads),
                   attr_arg("divisor_override", divisor)},
                  x.dtype, shape);
}

// Sums over windows with dilations: a product with ones, channel by channel.
Tensor window_sums(OpContext& c, const Tensor& x, const Window& w, const Shape& shape) {
  Emitter& e = c.e;
  Shape planes = x.shape, sums = shape, ones = {1, 1};
  planes[0] = x.shape[0] * x.shape[1];
  sums[0] = planes[0];
  planes[1] = sums[1] = 1;
  for (int64_t k : w.kernel) ones.emplace_back(k);
  const std::vector<Expr> none(w.kernel.size());
  const Tensor y = e.node("aten::convolution",
                          {e.arg("input", e.reshape(x, planes)),
                           e.arg("weight", e.full(ones, x.dtype, 1)), tensor_arg("bias", kNoValue),
                           attr_arg("stride", exprs(w.strides)), attr_arg("padding", none),
                           attr_arg("dilation", exprs(w.dilations)), attr_arg("transposed", false),
                           attr_arg("output_padding", none), attr_arg("groups", Expr(1))},
                          x.dtype, sums);
  return e.reshape(y, shape);
}

}  // namespace

Tensor averaged(OpContext& c, const Tensor& x) {
  Flat flat = lift(c, x, read_window(c, spatial_of(x), {}));
  const Shape spatial = spatial_of(flat.x), sizes = window_sizes(c.e, flat.w, spatial);
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  const bool with_pads = c.i("count_include_pad", 0) != 0;
  const bool dense = std::all_of(flat.w.dilations.begin(), flat.w.dilations.end(),
                                 [](int64_t d) { return d == 1; });
  if (fits_aten(flat.w) && dense) {
    return lower(c, flat, average(c, flat.x, flat.w, shape, with_pads, {}));
  }
  // The sum over the windows, by how many elements (padding too, where it counts) each holds.
  const Window given = flat.w;
  Shape counted_shape = flat.x.shape;
  counted_shape[0] = counted_shape[1] = 1;
  Flat counted{c.e.full(counted_shape, x.dtype, 1), flat.w};
  if (with_pads) {
    counted.x = c.e.pad(counted.x, torch_pads(given), 1);
    const Shape padded = spatial_of(counted.x);
    for (size_t d = 0; d < padded.size(); ++d) {
      const Expr reach = (sizes[d] - Expr(1)) * Expr(given.strides[d]) +
                         Expr((given.kernel[d] - 1) * given.dilations[d] + 1);
      counted.w.before[d] = 0;
      counted.w.after[d] = max(reach - padded[d], 0);
    }
    counted.x = c.e.pad(counted.x, torch_pads(counted.w), 0);
  } else {
    counted.x = pad_for(c, counted, 0);
  }
  flat.x = pad_for(c, flat, 0);
  Shape one = shape;
  one[0] = one[1] = 1;
  const Tensor sums = window_sums(c, flat.x, flat.w, shape);
  const Tensor counts = window_sums(c, counted.x, flat.w, one);
  return lower(c, flat, c.e.div(sums, counts));
}

namespace {

void average_pool(OpContext& c) { c.out(0, averaged(c, c.in(0))); }

void lp_pool(OpContext& c) {
  const Tensor& x = c.in(0);
  const double p = static_cast<double>(c.i("p", 2));
  Flat flat = lift(c, x, read_window(c, spatial_of(x), {}));
  const Shape spatial = spatial_of(flat.x), sizes = window_sizes(c.e, flat.w, spatial);
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  flat.x = c.e.with("pow", c.e.unary("abs", flat.x), p);
  flat.x = pad_for(c, flat, 0);
  const Tensor sums = window_sums(c, flat.x, flat.w, shape);
  c.out(0, lower(c, flat, c.e.with("pow", sums, 1 / p)));
}

std::vector<int64_t> spatial_dims(const Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t d = 2; d < x.rank(); ++d) dims.push_back(d);
  return dims;
}

void global_pool(OpContext& c) {
  const Tensor& x = c.in(0);
  spatial_of(x);
  const bool is_mean = c.type() == "GlobalAveragePool";
  c.out(0, c.e.reduce(is_mean ? "mean" : "amax", x, spatial_dims(x), true));
}

void global_lp_pool(OpContext& c) {
  const double p = static_cast<double>(c.i("p", 2));
  const Tensor powers = c.e.with("pow", c.e.unary("abs", c.in(0)), p);
  spatial_of(powers);
  const Tensor sums = c.e.reduce("sum", powers, spatial_dims(powers), true);
  c.out(0, c.e.with("pow", sums, 1 / p));
}

const RegisterOnnx ops{{"MaxPool", max_pool},
                       {"AveragePool", average_pool},
                       {"LpPool", lp_pool},
                       {"GlobalAveragePool", global_pool},
                       {"GlobalMaxPool", global_pool},
                       {"GlobalLpPool", global_lp_pool}};

}  // namespace
}  // namespace tv::onnx

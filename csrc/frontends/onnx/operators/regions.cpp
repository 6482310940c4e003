// Reading images between their elements: RoiAlign and DeformConv, as gathers of the four neighbours
// of each place, which are data.

#include <algorithm>

#include "csrc/frontends/onnx/kit/window.h"

namespace tv::onnx {
namespace {

struct Corner {
  Tensor place;   ///< number in its image, int64
  Tensor weight;  ///< 0 if it lies outside
};

struct Image {
  int64_t height = 0, width = 0;
  int64_t count() const { return height * width; }
};

Image image_of(const Tensor& x) {
  if (x.rank() != 4) refuse("images of " + std::to_string(x.rank() - 2) + " dimensions; want 2");
  const auto height = x.shape[2].constant(), width = x.shape[3].constant();
  if (!height || !width) refuse("images of dynamic size");
  if (*height < 1 || *width < 1) throw Error(ErrorKind::kUser, "an empty image");
  constexpr int64_t kMaxPlaces = int64_t{1} << 31;  // numbers of them are computed in 64 bits
  const int64_t channels = x.shape[1].constant().value_or(1);
  if (*height > kMaxPlaces / *width || channels > kMaxPlaces) refuse("an image of 2^31 elements");
  return {*height, *width};
}

Tensor within(Emitter& e, const Tensor& x, double low, double high) {
  return e.compare("logical_and", e.compare("ge", x, e.number(x.dtype, low)),
                   e.compare("le", x, e.number(x.dtype, high)));
}

/// The neighbours of y and x, row by row, with their bilinear weights.
std::vector<Corner> corners(Emitter& e, const Tensor& y, const Tensor& x, const Image& image) {
  const double last_row = static_cast<double>(image.height - 1);
  const double last_column = static_cast<double>(image.width - 1);
  const Tensor top = e.unary("floor", y), left = e.unary("floor", x);
  const Tensor down = e.sub(y, top), right = e.sub(x, left);
  std::vector<Corner> found;
  for (const int dy : {0, 1}) {
    for (const int dx : {0, 1}) {
      const Tensor row = e.with("add", top, dy), column = e.with("add", left, dx);
      const Tensor inside =
          e.compare("logical_and", within(e, row, 0, last_row), within(e, column, 0, last_column));
      const auto share = [&](const Tensor& part, int at) {
        return at ? part : e.with("add", e.unary("neg", part), 1);
      };
      const Tensor weight = e.mul(share(down, dy), share(right, dx));
      const auto number = [&](const Tensor& t, double last) {
        return e.cast(e.clamp(t, 0, last), DType::kI64);
      };
      const Tensor place =
          e.add(e.with("mul", number(row, last_row), static_cast<double>(image.width)),
                number(column, last_column));
      found.push_back({place, e.where(inside, weight, e.number(weight.dtype, 0))});
    }
  }
  return found;
}

/// What `rows` (elements of images, one after the other; channels) has at a corner, weighed.
Tensor weighed(Emitter& e, const Tensor& rows, const Tensor& first, const Corner& corner) {
  const Tensor places = e.add(corner.place, first);
  const Expr count = e.numel(places);
  const Tensor values = e.index_select(rows, 0, e.reshape(places, {count}));
  const Tensor weights = e.reshape(e.expand(corner.weight, places.shape), {count, 1});
  return e.mul(values, e.cast(weights, values.dtype));
}

/// Where each sample of a line lies, in bins: bin + (i + 0.5) / samples.
Tensor sample_line(Emitter& e, int64_t bins, int64_t samples) {
  Host out{.dtype = DType::kF32, .dims = {1, bins * samples}};
  for (int64_t i = 0; i < bins * samples; ++i) {
    out.floats.push_back(
        round_to(DType::kF32, (static_cast<double>(i) + 0.5) / static_cast<double>(samples)));
  }
  return e.from_host(std::move(out));
}

void roi_align(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &rois = c.in(1), &batch = c.in(2);
  const Image image = image_of(x);
  const int64_t height = c.i("output_height", 1), width = c.i("output_width", 1);
  const int64_t samples = c.i("sampling_ratio", 0);
  if (samples == 0) refuse("a number of samples that depends on data (sampling_ratio 0)");
  const auto sane = [](int64_t v) { return v >= 1 && v <= 4096; };
  if (!sane(height) || !sane(width) || !sane(samples)) throw Error(ErrorKind::kUser, "sizes");
  if (std::max(height, width) > kMaxHostElements / samples) refuse("more than 65536 samples");
  if (rois.rank() != 2 || batch.rank() != 1) throw Error(ErrorKind::kUser, "regions");
  const std::string mode = c.s("mode", "avg");
  if (mode != "avg" && mode != "max") throw Error(ErrorKind::kUser, "mode " + mode);
  const std::string usual = c.opset() < 16 ? "output_half_pixel" : "half_pixel";
  const bool half = c.s("coordinate_transformation_mode", usual) == "half_pixel";
  const Expr count = rois.shape[0];

  const Tensor scaled = e.with("mul", e.cast(rois, DType::kF32), c.f("spatial_scale", 1));
  const Tensor places = half ? e.with("sub", scaled, 0.5) : scaled;
  const auto along = [&](int64_t first, int64_t bins) {  // [regions, bins * samples]
    const Tensor start = e.slice(places, 1, first, first + 1);
    Tensor size = e.sub(e.slice(places, 1, first + 2, first + 3), start);
    if (!half) size = e.binary("maximum", size, e.number(DType::kF32, 1));
    const Tensor bin = e.with("div", size, static_cast<double>(bins));
    return e.add(start, e.mul(bin, sample_line(e, bins, samples)));
  };
  const Shape grid = {count, height * samples, width * samples};
  const Tensor y = e.expand(e.unsqueeze(along(1, height), 2), grid);
  const Tensor at = e.expand(e.unsqueeze(along(0, width), 1), grid);
  const auto rows = static_cast<double>(image.height), columns = static_cast<double>(image.width);
  const Tensor near = e.compare("logical_and", within(e, y, -1, rows), within(e, at, -1, columns));
  const Tensor first = e.reshape(
      e.with("mul", e.cast(batch, DType::kI64), static_cast<double>(image.count())), {count, 1, 1});
  const Tensor table =
      e.reshape(e.permute(x, {0, 2, 3, 1}), {x.shape[0] * Expr(image.count()), x.shape[1]});
  Tensor result;
  for (Corner& corner : corners(e, e.clamp(y, 0, rows - 1), e.clamp(at, 0, columns - 1), image)) {
    corner.weight = e.where(near, corner.weight, e.number(DType::kF32, 0));
    const Tensor part = weighed(e, table, first, corner);
    result = !result.present ? part
             : mode == "avg" ? e.add(result, part)
                             : e.binary("maximum", result, part);
  }
  result = e.reshape(result, {count, height, samples, width, samples, x.shape[1]});
  const Tensor pooled = e.reduce(mode == "avg" ? "mean" : "amax", result, {2, 4}, false);
  c.out(0, e.permute(pooled, {0, 3, 1, 2}));
}

/// Rows and columns that a window reads before offsets are added: [1, 1, taps, oh, ow] in part.
std::pair<Tensor, Tensor> window_places(Emitter& e, const Window& w, int64_t height,
                                        int64_t width) {
  const int64_t taps = w.kernel[0] * w.kernel[1];
  Host rows{.dtype = DType::kF32, .dims = {1, 1, taps, height, 1}};
  Host columns{.dtype = DType::kF32, .dims = {1, 1, taps, 1, width}};
  const auto place = [&](size_t d, int64_t out, int64_t tap) {
    return static_cast<double>(out * w.strides[d] - w.before[d].constant().value_or(0) +
                               tap * w.dilations[d]);
  };
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t i = 0; i < height; ++i) rows.floats.push_back(place(0, i, tap / w.kernel[1]));
    for (int64_t i = 0; i < width; ++i) columns.floats.push_back(place(1, i, tap % w.kernel[1]));
  }
  return {e.from_host(std::move(rows)), e.from_host(std::move(columns))};
}

void deform_conv(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &weight = c.in(1), &offset = c.in(2);
  const Image image = image_of(x);
  if (weight.rank() != 4 || offset.rank() != 4) throw Error(ErrorKind::kUser, "want rank 4");
  const auto channels = x.shape[1].constant(), filters = weight.shape[0].constant();
  const auto kernel_height = weight.shape[2].constant(), kernel_width = weight.shape[3].constant();
  if (!channels || !filters || !kernel_height || !kernel_width) refuse("weights of dynamic size");
  const Window w = read_window(c, {image.height, image.width}, {*kernel_height, *kernel_width});
  constexpr int64_t kMaxTaps = 4096;
  const bool kernel = w.kernel == std::vector<int64_t>{*kernel_height, *kernel_width};
  if (!kernel || *channels < 1 || *filters < 1) throw Error(ErrorKind::kUser, "the weight's sizes");
  if (*kernel_height > kMaxTaps / *kernel_width) refuse("a kernel of more than 4096 elements");
  const Shape sizes = window_sizes(e, w, {image.height, image.width});
  const auto height = sizes[0].constant(), width = sizes[1].constant();
  const int64_t groups = c.i("group", 1), parts = c.i("offset_group", 1);
  const int64_t taps = w.kernel[0] * w.kernel[1];
  const bool fit = groups >= 1 && parts >= 1 && *channels % groups == 0 && *channels % parts == 0 &&
                   *filters % groups == 0 && weight.shape[1] == Expr(*channels / groups) &&
                   offset.shape[1] == Expr(parts * taps * 2);
  if (!fit || !height || !width) throw Error(ErrorKind::kUser, "groups or offsets do not fit");
  if (taps * (*height + *width) > kMaxHostElements) refuse("a window of too many places");

  const Expr n = x.shape[0];
  const Shape grid = {n, parts, taps, *height, *width};
  const Tensor moved = e.reshape(offset, {n, parts, taps, 2, *height, *width});
  const auto [rows, columns] = window_places(e, w, *height, *width);
  const Tensor y = e.add(e.cast(e.select(moved, 3, 0), DType::kF32), rows);
  const Tensor at = e.add(e.cast(e.select(moved, 3, 1), DType::kF32), columns);
  const int64_t each = *channels / parts;
  const Tensor table = e.reshape(
      e.permute(e.reshape(x, {n, parts, each, image.height, image.width}), {0, 1, 3, 4, 2}),
      {n * Expr(parts * image.count()), each});
  const Tensor first = e.reshape(
      e.with("mul", e.arange(n * Expr(parts), DType::kI64), static_cast<double>(image.count())),
      {n, parts, 1, 1, 1});
  Tensor read;
  for (const Corner& corner : corners(e, y, at, image)) {
    const Tensor part = weighed(e, table, first, corner);
    read = read.present ? e.add(read, part) : part;
  }
  const int64_t places = *height * *width;
  read = e.reshape(read, {n, parts, taps, places, each});
  if (c.has(4)) read = e.mul(read, e.reshape(c.in(4), {n, parts, taps, places, 1}));
  const int64_t depth = *channels / groups * taps;
  const Tensor values = e.reshape(e.permute(read, {0, 1, 4, 2, 3}), {n, groups, depth, places});
  const Tensor y_parts = e.matmul(e.reshape(weight, {1, groups, *filters / groups, depth}), values);
  Tensor result = e.reshape(y_parts, {n, *filters, *height, *width});
  if (c.has(3)) result = e.add(result, e.reshape(c.in(3), {1, *filters, 1, 1}));
  c.out(0, result);
}

const RegisterOnnx ops{{"RoiAlign", roi_align}, {"DeformConv", deform_conv}};

}  // namespace
}  // namespace tv::onnx

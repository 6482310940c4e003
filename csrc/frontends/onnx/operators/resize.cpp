// Resizing: by ATen's operators where one has the same rule; else each output place reads a few
// places of one dimension after the other, as products with constant matrices, so that every mode
// and rule of ONNX is computed as it is defined.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

struct Rule {
  std::string mode, transform, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

/// Before opset 11: the one above where an axis shrinks, else the one below.
constexpr const char* kNearestOf10 = "of opset 10";

struct Axis {
  int64_t in = 1, out = 1;
  double scale = 1;    ///< out / in, or as it was given
  bool given = false;  ///< whether it was
  double roi_start = 0, roi_end = 1;
};

double source_of(const Rule& rule, const Axis& a, int64_t i) {
  const double in = static_cast<double>(a.in), x = static_cast<double>(i);
  const double length = static_cast<double>(a.out), wanted = a.scale * in;
  const std::string& t = rule.transform;
  if (t == "asymmetric") return x / a.scale;
  if (t == "align_corners") return a.out == 1 ? 0 : x * (in - 1) / (wanted - 1);
  if (t == "pytorch_half_pixel") return wanted > 1 ? (x + 0.5) / a.scale - 0.5 : 0;
  if (t == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (t == "half_pixel_symmetric") {
    const double adjustment = length / wanted, centre = in / 2;
    return centre * (1 - adjustment) + (x + 0.5) / a.scale - 0.5;
  }
  if (t == "tf_crop_and_resize") {
    if (a.out == 1) return 0.5 * (a.roi_start + a.roi_end) * (in - 1);
    return a.roi_start * (in - 1) + x * (a.roi_end - a.roi_start) * (in - 1) / (length - 1);
  }
  if (t == "half_pixel") return (x + 0.5) / a.scale - 0.5;
  throw Error(ErrorKind::kUser, "coordinate_transformation_mode " + t);
}

int64_t nearest_of(const Rule& rule, const Axis& a, double x) {
  const double floor = std::floor(x), ceil = std::ceil(x);
  if (rule.nearest == kNearestOf10) return static_cast<int64_t>(a.scale < 1 ? ceil : floor);
  if (rule.nearest == "floor") return static_cast<int64_t>(floor);
  if (rule.nearest == "ceil") return static_cast<int64_t>(ceil);
  if (rule.nearest == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(x - floor <= 0.5 ? floor : ceil);
}

double cubic_weight(double a, double x) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Weights of the input's elements for output i; places outside count for the nearest inside.
std::vector<std::pair<int64_t, double>> taps(const Rule& rule, const Axis& a, double x) {
  if (rule.mode == "nearest")
    return {{std::clamp<int64_t>(nearest_of(rule, a, x), 0, a.in - 1), 1}};
  const bool cubic = rule.mode == "cubic";
  const double narrow = rule.antialias ? std::min(a.scale, 1.0) : 1.0;
  const double reach = (cubic ? 2 : 1) / narrow;
  std::vector<std::pair<int64_t, double>> out;
  double sum = 0;
  const auto first = static_cast<int64_t>(std::floor(x - reach)) + 1;
  const auto last = static_cast<int64_t>(std::ceil(x + reach)) - 1;
  for (int64_t place = first; place <= last; ++place) {
    const double away = (static_cast<double>(place) - x) * narrow;
    double weight = cubic ? cubic_weight(rule.cubic, away) : std::max(0.0, 1 - std::fabs(away));
    const bool outside = place < 0 || place >= a.in;
    if (outside && rule.exclude_outside) weight = 0;
    out.emplace_back(std::clamp<int64_t>(place, 0, a.in - 1), weight);
    sum += weight;
  }
  for (auto& [place, weight] : out) weight /= sum;
  return out;
}

// (in, out), to be multiplied from the right.
Host matrix_of(const Rule& rule, const Axis& a) {
  Host matrix{.dtype = DType::kF32, .dims = {a.in, a.out}};
  matrix.floats.assign(static_cast<size_t>(a.in * a.out), 0);
  for (int64_t i = 0; i < a.out; ++i) {
    for (const auto& [place, weight] : taps(rule, a, source_of(rule, a, i))) {
      matrix.floats[static_cast<size_t>(place * a.out + i)] += weight;
    }
  }
  for (double& value : matrix.floats) value = static_cast<float>(value);
  return matrix;
}

Tensor nearest_along(Emitter& e, const Tensor& x, int64_t d, const Rule& rule, const Axis& a) {
  std::vector<Expr> places;
  for (int64_t i = 0; i < a.out; ++i)
    places.emplace_back(taps(rule, a, source_of(rule, a, i))[0].first);
  return e.index_select(x, d, e.integers(std::move(places), DType::kI64));
}

Tensor resized_along(Emitter& e, const Tensor& x, int64_t d, const Rule& rule, const Axis& a) {
  if (rule.mode == "nearest") return nearest_along(e, x, d, rule, a);
  if (a.in * a.out > (int64_t{1} << 24)) refuse("resizing by more than 16 million weights");
  const Tensor moved = e.transpose(x, d, -1);
  Shape rows = {product(std::span<const Expr>(moved.shape).first(moved.shape.size() - 1)), a.in};
  const Tensor weights = e.cast(e.from_host(matrix_of(rule, a)), x.dtype);
  Shape shape = moved.shape;
  shape.back() = a.out;
  return e.transpose(e.reshape(e.matmul(e.reshape(moved, rows), weights), shape), d, -1);
}

// Where a place lies outside of the input, tf_crop_and_resize gives a constant.
Tensor extrapolated(Emitter& e, const Tensor& y, int64_t d, const Rule& rule, const Axis& a) {
  Host outside{.dtype = DType::kBool, .dims = std::vector<int64_t>(y.shape.size(), 1)};
  outside.dims[static_cast<size_t>(d)] = a.out;
  bool any = false;
  for (int64_t i = 0; i < a.out; ++i) {
    const double x = source_of(rule, a, i);
    const bool out = x < 0 || x > static_cast<double>(a.in - 1);
    any = any || out;
    outside.ints.emplace_back(out ? 1 : 0);
  }
  if (!any) return y;
  return e.where(e.from_host(std::move(outside)), e.number(y.dtype, rule.extrapolation), y);
}

/// An operator of ATen: its name without the number of dimensions.
struct Whole {
  std::string name;
  bool align = false, corners = false;  ///< whether it has align_corners, and its value
};

// ATen takes the nearest by float32 arithmetic on the ratio of the sizes, which is exact for powers
// of two.
bool exact_ratio(const Axis& a) {
  int exponent = 0;
  const double ratio = static_cast<double>(a.in) / static_cast<double>(a.out);
  return std::frexp(ratio, &exponent) == 0.5 && a.scale * ratio == 1 && a.out < (1 << 22);
}

std::optional<Whole> whole_operator(const Rule& rule, const std::vector<Axis>& axes) {
  const std::string& t = rule.transform;
  const auto all = [&](auto&& test) { return std::all_of(axes.begin(), axes.end(), test); };
  if (rule.antialias || rule.exclude_outside) return std::nullopt;
  if (rule.mode == "nearest") {
    if (!all(exact_ratio)) return std::nullopt;
    const bool below = rule.nearest == "floor" ||
                       (rule.nearest == kNearestOf10 &&
                        std::ranges::all_of(axes, [](const Axis& a) { return a.scale >= 1; }));
    if (t == "asymmetric" && below) return Whole{.name = "upsample_nearest"};
    const bool centres = t == "half_pixel" || t == "pytorch_half_pixel";
    if (!centres || rule.nearest != "round_prefer_ceil") return std::nullopt;
    return Whole{.name = "_upsample_nearest_exact"};
  }
  const bool corners = t == "align_corners";
  const auto plain = [](const Axis& a) {
    return a.out > 1 && std::floor(a.scale * static_cast<double>(a.in)) == a.scale * a.in;
  };
  if (!corners && t != "half_pixel" && t != "pytorch_half_pixel") return std::nullopt;
  if (!all(plain)) return std::nullopt;
  if (rule.mode == "cubic") {
    if (axes.size() != 2 || rule.cubic != -0.75) return std::nullopt;
    return Whole{.name = "upsample_bicubic", .align = true, .corners = corners};
  }
  const char* names[] = {"upsample_linear", "upsample_bilinear", "upsample_trilinear"};
  return Whole{.name = names[axes.size() - 1], .align = true, .corners = corners};
}

/// By one operator of ATen, where that computes the same.
std::optional<Tensor> resized_at_once(Emitter& e, const Tensor& x, const Rule& rule,
                                      const std::vector<Axis>& axes,
                                      const std::vector<int64_t>& dims) {
  const int64_t spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3 || !is_float(x.dtype)) return std::nullopt;
  std::vector<Axis> places(static_cast<size_t>(spatial));
  std::vector<bool> found(static_cast<size_t>(spatial), false);
  for (size_t k = 0; k < axes.size(); ++k) {
    if (dims[k] < 2) {
      if (axes[k].in != axes[k].out || axes[k].scale != 1) return std::nullopt;
      continue;
    }
    places[static_cast<size_t>(dims[k] - 2)] = axes[k];
    found[static_cast<size_t>(dims[k] - 2)] = true;
  }
  if (!std::all_of(found.begin(), found.end(), [](bool f) { return f; })) return std::nullopt;
  const auto op = whole_operator(rule, places);
  if (!op) return std::nullopt;
  Shape shape(x.shape.begin(), x.shape.begin() + 2), sizes;
  std::vector<Arg> factors;
  const char* names[] = {"scales_d", "scales_h", "scales_w"};
  for (size_t k = 0; k < places.size(); ++k) {
    const std::string name = spatial == 1 ? "scales" : names[3 - places.size() + k];
    sizes.emplace_back(places[k].out);
    factors.push_back(places[k].given ? attr_arg(name, places[k].scale) : attr_arg(name, {}));
  }
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  std::vector<Arg> args = {e.arg("self", x), attr_arg("output_size", sizes)};
  if (op->align) args.push_back(attr_arg("align_corners", op->corners));
  args.insert(args.end(), factors.begin(), factors.end());
  return e.node("aten::" + op->name + std::to_string(spatial) + "d", std::move(args), x.dtype,
                shape);
}

Rule rule_of(OpContext& c) {
  Rule rule{.mode = c.s("mode", "nearest"),
            .transform = c.s("coordinate_transformation_mode", "half_pixel"),
            .nearest = c.s("nearest_mode", "round_prefer_floor"),
            .cubic = c.f("cubic_coeff_a", -0.75),
            .extrapolation = c.f("extrapolation_value", 0),
            .exclude_outside = c.i("exclude_outside", 0) != 0,
            .antialias = c.i("antialias", 0) != 0};
  if (c.type() == "Upsample" || c.opset() < 11) {
    rule.transform = "asymmetric";
    rule.nearest = kNearestOf10;
  }
  if (rule.mode != "nearest" && rule.mode != "linear" && rule.mode != "cubic") {
    throw Error(ErrorKind::kUser, "mode " + rule.mode);
  }
  return rule;
}

void apply_policy(const std::string& policy, std::vector<Axis>& axes) {
  if (policy == "stretch" || axes.empty()) return;
  double scale = axes[0].scale;
  for (const Axis& a : axes) {
    scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  }
  for (Axis& a : axes) {
    a.scale = scale;
    a.given = true;
    a.out = static_cast<int64_t>(std::floor(scale * static_cast<double>(a.in) + 0.5));
  }
}

/// What a node asks for: the dimensions, and for each its scale or size; the region of interest.
struct Request {
  std::vector<int64_t> dims;
  std::vector<Expr> sizes;
  std::vector<double> scales, roi;
};

Request request_of(OpContext& c, const Rule& rule, int64_t rank) {
  Request r{.dims = c.ints("axes")};
  if (r.dims.empty()) {
    r.dims.resize(static_cast<size_t>(rank));
    std::iota(r.dims.begin(), r.dims.end(), 0);
  }
  for (int64_t& d : r.dims) d = Emitter::wrap(d, rank);
  const size_t scales_at = c.type() == "Upsample" || c.opset() < 11 ? 1 : 2;
  if (c.has_attr("scales")) {
    r.scales = c.floats("scales");
  } else if (c.has(scales_at)) {
    r.scales = c.known_floats(scales_at);
  }
  if (r.scales.empty() && c.has(3)) r.sizes = c.known(3);
  if (r.scales.size() + r.sizes.size() != r.dims.size()) {
    throw Error(ErrorKind::kUser, "as many scales or sizes as dimensions");
  }
  if (rule.transform == "tf_crop_and_resize") r.roi = c.known_floats(1);
  return r;
}

/// Dimension r.dims[k], of `in` elements.
Axis axis_of(const Request& r, size_t k, int64_t in) {
  Axis a{.in = in};
  if (!r.scales.empty()) {
    a.scale = r.scales[k];
    a.given = true;
    a.out = static_cast<int64_t>(std::floor(static_cast<double>(a.in) * a.scale));
  } else {
    const auto size = r.sizes[k].constant();
    if (!size) refuse("a dimension is resized to a dynamic size");
    a.out = *size;
    a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
  }
  if (a.in < 1 || a.out < 1 || a.out > (1 << 24) || !(a.scale > 0)) {
    throw Error(ErrorKind::kUser, "a size or scale of 0 or less");
  }
  if (!r.roi.empty()) {
    a.roi_start = r.roi.at(k);
    a.roi_end = r.roi.at(k + r.dims.size());
  }
  return a;
}

/// One dimension after the other.
Tensor resized_in_turn(Emitter& e, Tensor x, const Rule& rule, const std::vector<Axis>& axes,
                       const std::vector<int64_t>& dims, bool extrapolate) {
  if (rule.mode != "nearest") x = e.cast(x, DType::kF32);
  for (size_t k = 0; k < axes.size(); ++k) {
    const bool whole = axes[k].roi_start == 0 && axes[k].roi_end == 1;
    if (axes[k].in == axes[k].out && axes[k].scale == 1 && whole) continue;
    x = resized_along(e, x, dims[k], rule, axes[k]);
  }
  for (size_t k = 0; k < axes.size() && extrapolate; ++k) {
    x = extrapolated(e, x, dims[k], rule, axes[k]);
  }
  return x;
}

void resize(OpContext& c) {
  Emitter& e = c.e;
  const Tensor x = c.in(0);
  const Rule rule = rule_of(c);
  const Request request = request_of(c, rule, x.rank());
  const std::string policy = c.s("keep_aspect_ratio_policy", "stretch");
  std::vector<Axis> axes;
  std::vector<int64_t> dims;
  for (size_t k = 0; k < request.dims.size(); ++k) {
    const Expr extent = x.shape[static_cast<size_t>(request.dims[k])];
    if (extent.is_constant()) {
      axes.push_back(axis_of(request, k, *extent.constant()));
      dims.push_back(request.dims[k]);
      continue;
    }
    const bool stays = request.sizes.empty() ? request.scales[k] == 1
                                             : request.sizes[k] == extent && policy == "stretch";
    if (!stays || !request.roi.empty()) refuse("a dynamic dimension is resized");
  }
  if (!request.sizes.empty()) apply_policy(policy, axes);
  if (request.roi.empty()) {
    if (const auto y = resized_at_once(e, x, rule, axes, dims)) return c.out(0, *y);
  }
  const Tensor y = resized_in_turn(e, x, rule, axes, dims, !request.roi.empty());
  c.out(0, e.cast(y, x.dtype));
}

const RegisterOnnx ops{{"Resize", resize}, {"Upsample", resize}};

}  // namespace
}  // namespace tv::onnx

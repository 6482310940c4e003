#include "converters/pooling/pool_window.h"

namespace tv {
namespace {

/// A list of one or `dims` values into height and width; the last `dims` of `to` are set.
void read(const Node& node, const std::string& arg, int dims, Expr (&to)[2]) {
  const std::vector<Expr> values = node.has(arg) ? node.exprs(arg) : std::vector<Expr>{};
  for (int i = 0; i < dims && !values.empty(); ++i) {
    to[2 - dims + i] = values.size() == 1 ? values[0] : values.at(i);
  }
}

}  // namespace

PoolWindow window_of(const Node& node, int dims) {
  PoolWindow window;
  read(node, "kernel_size", dims, window.kernel);
  for (int i = 0; i < 2; ++i) window.stride[i] = window.kernel[i];
  read(node, "stride", dims, window.stride);
  read(node, "padding", dims, window.padding);
  read(node, "dilation", dims, window.dilation);
  return window;
}

Planes planes_of(const Shape& shape, int dims) {
  const size_t lead = shape.size() - dims;
  return {.count = product_of(shape, 0, lead),
          .height = dims == 2 ? shape[lead] : Expr(1),
          .width = shape.back()};
}

Expr clipped_iterations(const PoolWindow& window, const Planes& in) {
  return min(window.kernel[0], in.height) * (min(window.kernel[1], in.width) + 1);
}

Expr adaptive_iterations(const Planes& from, const Planes& to) {
  const auto span = [](const Expr& a, const Expr& b) { return floordiv(a, max(b, Expr(1))) + 2; };
  return span(from.height, to.height) * (span(from.width, to.width) + 1);
}

void add_plane_params(Step& step, const Planes& in, const Planes& out) {
  step.params.push_back(param("height", in.height));
  step.params.push_back(param("width", in.width));
  step.params.push_back(param("out_height", out.height));
  step.params.push_back(param("out_width", out.width));
}

void add_window_params(Step& step, const PoolWindow& window, bool dilation) {
  const char* axes[] = {"h", "w"};
  for (int i = 0; i < 2; ++i) {
    const std::string axis = axes[i];
    step.params.push_back(fixed("kernel_" + axis, window.kernel[i]));
    step.params.push_back(fixed("stride_" + axis, window.stride[i]));
    step.params.push_back(param("pad_" + axis, window.padding[i]));
    if (dilation) step.params.push_back(fixed("dilation_" + axis, window.dilation[i]));
  }
}

std::vector<std::pair<std::string, std::string>> key_defines(DType dtype) {
  const char* lowest = is_float(dtype)        ? "uintBitsToFloat(0xff800000u)"
                       : dtype == DType::kI64 ? "(-9223372036854775807L - 1L)"
                       : dtype == DType::kI32 ? "(-2147483647 - 1)"
                       : dtype == DType::kI16 ? "-32768"
                       : dtype == DType::kI8  ? "-128"
                                              : "0";
  return {{"KEY", key_type(dtype)}, {"FLOAT_KEY", is_float(dtype) ? "1" : "0"}, {"LOWEST", lowest}};
}

std::string numbers_only(const NodeContext& c, const std::string& arg) {
  const DType dtype = c.dtype(arg);
  if (is_float(dtype) || is_integer(dtype)) return "";
  return "[" + c.node.op + "] " + arg + " must be of numbers; got " + std::string(name(dtype));
}

}  // namespace tv

// ATen's reductions in terms of tv::reduce and pointwise steps, which fuse into it.

#include <algorithm>
#include <cmath>
#include <limits>

#include "converters/kit/reduction.h"
#include "converters/kit/row_types.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

Reduction over(const NodeContext& c, std::string kind, const std::string& dim_arg = "dim") {
  return {
      .kind = std::move(kind), .dims = reduced_dims(c, dim_arg), .keepdim = c.node.flag("keepdim")};
}

using Expand = decltype(Converter::expand);

Expand plain(std::string kind) {
  return [kind](const NodeContext& c, Rewriter& r) {
    r.replace(0, add_reduce(r, c.node.input("self"), over(c, kind), c.output().dtype));
  };
}

void mean(const NodeContext& c, Rewriter& r) {
  Reduction reduction = over(c, "sum");
  reduction.divisor = count_in(c.shape("self"), reduction.dims);
  r.replace(0, add_reduce(r, c.node.input("self"), reduction, c.output().dtype));
}

struct Moments {
  ValueId variance, mean;  // float32
};

/// The correction is an integer or None (one); `unbiased` is its older form. Nullopt: a fraction.
std::optional<Expr> correction(const Node& node) {
  if (node.find("correction") == nullptr) {
    return node.find("unbiased") == nullptr ? Expr(1) : Expr(node.flag("unbiased") ? 1 : 0);
  }
  if (!node.has("correction")) return Expr(1);
  const Attr& attr = node.arg("correction").attr;
  if (const auto* e = std::get_if<Expr>(&attr)) return *e;
  const double value = node.number("correction");
  if (value != std::floor(value)) return std::nullopt;
  return Expr(static_cast<int64_t>(value));
}

/// Two passes: the mean, then the mean of squared distances from it, so that nothing cancels.
Moments moments(const NodeContext& c, Rewriter& r) {
  const Reduction reduction = over(c, "sum");
  const ValueId x = r.cast(c.node.input("self"), DType::kF32);
  const Expr count = count_in(c.shape("self"), reduction.dims);
  Reduction kept = reduction;
  kept.keepdim = true;
  kept.divisor = count;
  const ValueId mean = add_reduce(r, x, kept, DType::kF32);
  const ValueId distance = r.pointwise("sub", {x, mean}, DType::kF32);
  Reduction squares = reduction;
  const std::optional<Expr> whole = correction(c.node);
  if (whole) squares.divisor = max(count - *whole, 0);
  ValueId variance =
      add_reduce(r, r.pointwise("square", {distance}, DType::kF32), squares, DType::kF32);
  if (!whole) {
    const double left = static_cast<double>(*count.constant()) - c.node.number("correction");
    variance = r.pointwise("div", {variance}, DType::kF32, {std::max(left, 0.0)});
  }
  return {variance, mean};
}

Expand variance(bool root, bool with_mean) {
  return [=](const NodeContext& c, Rewriter& r) {
    const Moments m = moments(c, r);
    const ValueId first = root ? r.pointwise("sqrt", {m.variance}, DType::kF32) : m.variance;
    r.replace(0, r.cast(first, c.output().dtype));
    if (with_mean) {
      const ValueId mean = r.reshape(m.mean, r.graph().value(m.variance).shape);
      r.replace(1, r.cast(mean, c.output().dtype));
    }
  };
}

std::string variance_unsupported(const NodeContext& c) {
  if (!correction(c.node) && !count_in(c.shape("self"), reduced_dims(c, "dim")).constant()) {
    return "[" + c.node.op + "] a correction that is no integer needs fixed sizes";
  }
  return floats_only(c, "self");
}

double norm_order(const Node& node) {
  for (const char* arg : {"ord", "p"}) {
    if (node.has(arg)) return node.number(arg);
  }
  return 2;
}

/// Sum of |x|^p, then its p-th root.
void norm_of_any_order(const NodeContext& c, Rewriter& r, double p) {
  const ValueId x = r.cast(c.node.input("self"), DType::kF32);
  const ValueId magnitude = r.pointwise("abs", {x}, DType::kF32);
  const ValueId powers = r.pointwise("pow", {magnitude}, DType::kF32, {p});
  const ValueId sum = add_reduce(r, powers, over(c, "sum"), DType::kF32);
  r.replace(0, r.cast(r.pointwise("pow", {sum}, DType::kF32, {1 / p}), c.output().dtype));
}

void dist(const NodeContext& c, Rewriter& r) {
  const ValueId apart =
      r.pointwise("sub", {c.node.input("self"), c.node.input("other")}, c.output().dtype);
  r.replace(0, r.add("aten::linalg_vector_norm",
                     {tensor_arg("self", apart), attr_arg("ord", c.node.arg("p").attr),
                      attr_arg("dim", std::monostate{}), attr_arg("keepdim", false),
                      attr_arg("dtype", std::monostate{})},
                     c.output().dtype, {}));
}

void norm(const NodeContext& c, Rewriter& r) {
  const double p = norm_order(c.node);
  const DType out = c.output().dtype;
  if (p != 0 && p != 1 && p != 2 && !std::isinf(p)) return norm_of_any_order(c, r, p);
  const ValueId x = r.cast(c.node.input("self"), DType::kF32);
  if (p == 0) {
    const ValueId nonzero = r.pointwise("ne", {x}, DType::kBool, {0.0});
    r.replace(0, add_reduce(r, nonzero, over(c, "sum"), out));
    return;
  }
  if (p == 2) {
    const ValueId squares = r.pointwise("square", {x}, DType::kF32);
    const ValueId sum = add_reduce(r, squares, over(c, "sum"), DType::kF32);
    r.replace(0, r.cast(r.pointwise("sqrt", {sum}, DType::kF32), out));
    return;
  }
  const ValueId magnitude = r.pointwise("abs", {x}, DType::kF32);
  r.replace(0, add_reduce(r, magnitude, over(c, p == 1 ? "sum" : p > 0 ? "max" : "min"), out));
}

void count_nonzero(const NodeContext& c, Rewriter& r) {
  const ValueId nonzero = r.pointwise("ne", {c.node.input("self")}, DType::kBool, {0.0});
  r.replace(0, add_reduce(r, nonzero, over(c, "sum"), c.output().dtype));
}

void aminmax(const NodeContext& c, Rewriter& r) {
  const DType dtype = c.output().dtype;
  r.replace(0, add_reduce(r, c.node.input("self"), over(c, "min"), dtype));
  r.replace(1, add_reduce(r, c.node.input("self"), over(c, "max"), dtype));
}

std::string floats_of_self(const NodeContext& c) { return floats_only(c, "self"); }

/// torch reduces nothing if an empty list is given, unlike with sum.
Expand logical(std::string kind) {
  return [kind](const NodeContext& c, Rewriter& r) {
    if (!c.node.has("dim") || !c.node.exprs("dim").empty()) return plain(kind)(c, r);
    const ValueId nonzero = r.pointwise("ne", {c.node.input("self")}, DType::kBool, {0.0});
    r.replace(0, r.cast(nonzero, c.output().dtype));
  };
}

void dist_types(NodeTypes& t) {
  t.broadcast(t.shape("self"), t.shape("other"), "a size of argument 'other'");
  t.gives({});
}

Converter entry(std::string op, Expand expand, decltype(Converter::unsupported) refuse = {}) {
  return {.op = std::move(op),
          .unsupported = std::move(refuse),
          .expand = std::move(expand),
          .types = types::reduced};
}

Converter of_elements(Converter converter) {
  converter.needs_elements = true;
  return converter;
}

Converter of_windows(Converter converter) {
  converter.moves = Moves::kMeans;
  return converter;
}

const RegisterConverter reductions{
    typed(entry("aten::dist", dist, floats_of_self), dist_types),
    in_float32(entry("aten::sum", plain("sum"))),
    in_float32(entry("aten::sum.dim_IntList", plain("sum"))),
    in_float32(entry("aten::prod", plain("prod"))),
    in_float32(entry("aten::prod.dim_int", plain("prod"))),
    of_elements(entry("aten::amax", plain("max"))),
    of_elements(entry("aten::amin", plain("min"))),
    of_elements(entry("aten::max", plain("max"))),
    of_elements(entry("aten::min", plain("min"))),
    entry("aten::any", plain("any")),
    entry("aten::any.dim", plain("any")),
    typed(entry("aten::any.dims", logical("any")), types::reduced_of_some),
    entry("aten::all", plain("all")),
    entry("aten::all.dim", plain("all")),
    typed(entry("aten::all.dims", logical("all")), types::reduced_of_some),
    of_elements(entry("aten::aminmax", aminmax)),
    entry("aten::count_nonzero", count_nonzero),
    entry("aten::count_nonzero.dim_IntList", count_nonzero),
    of_windows(entry("aten::mean", mean)),
    of_windows(entry("aten::mean.dim", mean)),
    in_float32(entry("aten::var", variance(false, false), variance_unsupported)),
    in_float32(entry("aten::var.dim", variance(false, false), variance_unsupported)),
    in_float32(entry("aten::var.correction", variance(false, false), variance_unsupported)),
    entry("aten::std", variance(true, false), variance_unsupported),
    entry("aten::std.dim", variance(true, false), variance_unsupported),
    entry("aten::std.correction", variance(true, false), variance_unsupported),
    in_float32(entry("aten::var_mean.correction", variance(false, true), variance_unsupported)),
    entry("aten::std_mean.correction", variance(true, true), variance_unsupported),
    in_float32(entry("aten::linalg_vector_norm", norm, floats_of_self)),
    entry("aten::norm.ScalarOpt_dim", norm, floats_of_self),
    entry("aten::norm.Scalar", norm, floats_of_self),
};

}  // namespace
}  // namespace tv

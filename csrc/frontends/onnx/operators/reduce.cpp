// Reductions, arg-reductions, running sums, sorting.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "csrc/frontends/onnx/emit/uint64.h"
#include "csrc/frontends/onnx/file/small_float.h"
#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

std::vector<int64_t> axes_of(OpContext& c, const Tensor& x) {
  std::vector<int64_t> axes = c.ints_or_input("axes", 1);
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = Emitter::wrap(axis, x.rank());
  return axes;
}

// Products of sizes: the whole of a known vector.
std::optional<Tensor> host_reduce(OpContext& c, const Tensor& x, bool keep) {
  const auto host = movable(c.e, x);
  if (!host || is_float(host->dtype) || host->dims.size() != 1 || host->ints.empty()) {
    return std::nullopt;
  }
  std::optional<Expr> result = host->ints[0];
  for (size_t i = 1; i < host->ints.size() && result; ++i) {
    const Expr& next = host->ints[i];
    if (c.type() == "ReduceProd") result = checked_mul(*result, next);
    if (c.type() == "ReduceSum") result = checked_add(*result, next);
    if (c.type() == "ReduceMax") result = max(*result, next);
    if (c.type() == "ReduceMin") result = min(*result, next);
  }
  if (!result) return std::nullopt;
  Host out{.dtype = host->dtype};
  if (keep) out.dims = {1};
  out.ints = {*result};
  return c.e.from_host(std::move(out));
}

Tensor empty_result(OpContext& c, const Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool gone = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (!gone) shape.push_back(x.shape[static_cast<size_t>(d)]);
    if (gone && keep) shape.emplace_back(1);
  }
  const std::string& type = c.type();
  const bool high = type == "ReduceMin", low = type == "ReduceMax";
  double value = type == "ReduceProd" ? 1 : 0;
  if (type == "ReduceMean") value = std::nan("");
  if (type == "ReduceLogSum" || type == "ReduceLogSumExp") value = -HUGE_VAL;
  if (high || low) value = high ? HUGE_VAL : -HUGE_VAL;
  if (!is_float(x.dtype) && std::isinf(value)) refuse("an extremum of no integers");
  return c.e.full(shape, x.dtype, value);
}

Tensor extremum(Emitter& e, const std::string& function, const Tensor& x,
                const std::vector<int64_t>& axes, bool keep) {
  if (x.dtype != DType::kBool) return e.reduce(function, x, axes, keep);
  return e.cast(e.reduce(function, e.cast(x, DType::kU8), axes, keep), DType::kBool);
}

void reduce(OpContext& c) {
  const Tensor& x = c.in(0);
  Emitter& e = c.e;
  const bool keep = c.i("keepdims", 1) != 0;
  const std::string& type = c.type();
  const bool given = !c.ints_or_input("axes", 1).empty();
  if (!given && c.i("noop_with_empty_axes", 0) != 0) {
    if (type == "ReduceL1" || type == "ReduceL2") return c.out(0, e.unary("abs", x));
    if (type == "ReduceSumSquare") return c.out(0, e.mul(x, x));
    if (type == "ReduceLogSum") return c.out(0, e.unary("log", x));
    return c.out(0, x);
  }
  const std::vector<int64_t> axes = axes_of(c, x);
  if (auto value = host_reduce(c, x, keep)) return c.out(0, *value);
  if (e.numel(x) == Expr(0)) return c.out(0, empty_result(c, x, axes, keep));
  if (type == "ReduceMax" || type == "ReduceMin") {
    return c.out(0, extremum(e, type == "ReduceMax" ? "amax" : "amin", x, axes, keep));
  }
  if (type == "ReduceSum") return c.out(0, e.reduce("sum", x, axes, keep));
  if (type == "ReduceMean") {
    if (is_float(x.dtype)) return c.out(0, e.reduce("mean", x, axes, keep));
    const Tensor sum = e.reduce("sum", x, axes, keep);
    Host count{.dtype = x.dtype};
    Expr elements = 1;
    for (int64_t axis : axes) elements = elements * x.shape[static_cast<size_t>(axis)];
    count.ints = {elements};
    return c.out(0, e.divide(sum, e.from_host(std::move(count)), "trunc"));
  }
  if (type == "ReduceProd") return c.out(0, e.reduce("prod", x, axes, keep));
  if (type == "ReduceL1") return c.out(0, e.reduce("sum", e.unary("abs", x), axes, keep));
  if (type == "ReduceSumSquare") return c.out(0, e.reduce("sum", e.mul(x, x), axes, keep));
  if (type == "ReduceL2") {
    const Tensor sum = e.reduce("sum", e.mul(x, x), axes, keep);
    if (is_float(x.dtype)) return c.out(0, e.unary("sqrt", sum));
    return c.out(0, e.cast(e.unary("sqrt", e.cast(sum, DType::kF32)), x.dtype));
  }
  if (type == "ReduceLogSum") {
    return c.out(0, e.unary("log", e.reduce("sum", x, axes, keep)));
  }
  // log Σ exp(x), around the largest; where that is infinite, around 0.
  const Tensor largest = e.reduce("amax", x, axes, true);
  const Tensor finite = e.where(e.test("isinf", largest), e.number(x.dtype, 0), largest);
  const Tensor sum = e.reduce("sum", e.unary("exp", e.sub(x, finite)), axes, true);
  const Tensor whole = e.add(e.unary("log", sum), finite);
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool gone = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (!gone) shape.push_back(x.shape[static_cast<size_t>(d)]);
  }
  c.out(0, keep ? whole : e.reshape(whole, shape));
}

void arg_reduce(OpContext& c) {
  Tensor x = c.in(0);
  Emitter& e = c.e;
  const int64_t axis = c.axis("axis", 0, x.rank());
  const bool keep = c.i("keepdims", 1) != 0, last = c.i("select_last_index", 0) != 0;
  const Expr size = x.shape[static_cast<size_t>(axis)];
  if (last) x = e.flip(x, {axis});
  Shape shape = x.shape;
  if (keep) {
    shape[static_cast<size_t>(axis)] = 1;
  } else {
    shape.erase(shape.begin() + axis);
  }
  const DType index = DType::kI64;
  Tensor place = e.node(c.type() == "ArgMax" ? "aten::argmax" : "aten::argmin",
                        {e.arg("self", x), attr_arg("dim", Expr(axis)), attr_arg("keepdim", keep)},
                        index, shape);
  if (last) {
    Host end{.dtype = index};
    end.ints = {size - Expr(1)};
    place = e.sub(e.from_host(std::move(end)), place);
  }
  c.out(0, place);
}

void running(OpContext& c) {
  Tensor x = c.in(0);
  Emitter& e = c.e;
  const auto given = c.known_ints(1);
  const int64_t axis = Emitter::wrap(given.at(0), x.rank());
  const bool exclusive = c.i("exclusive", 0) != 0, reverse = c.i("reverse", 0) != 0;
  const bool sum = c.type() == "CumSum";
  if (reverse) x = e.flip(x, {axis});
  if (exclusive) {
    std::vector<Expr> pads(static_cast<size_t>(2 * (x.rank() - axis)), Expr(0));
    pads[pads.size() - 2] = 1;
    const Expr size = x.shape[static_cast<size_t>(axis)];
    x = e.slice(e.pad(x, pads, sum ? 0 : 1), axis, 0, size);
  }
  Tensor y =
      e.node(sum ? "aten::cumsum" : "aten::cumprod",
             {e.arg("self", x), attr_arg("dim", Expr(axis)), dtype_arg(x.dtype)}, x.dtype, x.shape);
  if (reverse) y = e.flip(y, {axis});
  c.out(0, y);
}

void top_k(OpContext& c) {
  const Tensor& x = c.in(0);
  if (!small_float(x.widened).empty()) refuse("input 0 is of type " + type_name(x.widened));
  const int64_t axis = c.axis("axis", -1, x.rank());
  const Expr k = c.opset() < 10 ? Expr(c.i("k", 1)) : c.known(1).at(0);
  const auto [low, high] = bounds(c.e, x.shape[static_cast<size_t>(axis)] - k);
  if (high < 0) throw Error(ErrorKind::kUser, "k is larger than the dimension");
  c.e.require(x.shape[static_cast<size_t>(axis)], Relation::kAtLeast, k);
  auto [values, indices] = c.e.topk(ordered(c.e, x), k, axis, c.i("largest", 1) != 0);
  values.widened = x.widened;
  c.out(0, ordered(c.e, values));
  c.out(1, indices);
}

const RegisterOnnx ops{
    {"ReduceSum", reduce},       {"ReduceMean", reduce},      {"ReduceMax", reduce},
    {"ReduceMin", reduce},       {"ReduceProd", reduce},      {"ReduceL1", reduce},
    {"ReduceL2", reduce},        {"ReduceSumSquare", reduce}, {"ReduceLogSum", reduce},
    {"ReduceLogSumExp", reduce}, {"ArgMax", arg_reduce},      {"ArgMin", arg_reduce},
    {"CumSum", running},         {"CumProd", running},        {"TopK", top_k, Widened::kSaid}};

}  // namespace
}  // namespace tv::onnx

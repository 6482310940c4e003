// Sizes, and tensors whose elements stay as they are: reshaped, joined, cut, repeated.

#include <algorithm>
#include <limits>
#include <numeric>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

// Row-major places of a part of a tensor, `take[d]` being the indices of dimension d.
std::vector<int64_t> places_of(const std::vector<int64_t>& dims,
                               const std::vector<std::vector<int64_t>>& take) {
  std::vector<int64_t> strides(dims.size(), 1), places(1, 0);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t place : places) {
      for (int64_t index : take[d]) next.push_back(place + index * strides[d]);
    }
    places = std::move(next);
  }
  return places;
}

std::vector<int64_t> all_of(int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

void shape(OpContext& c) {
  const Tensor& x = c.in(0);
  int64_t start = c.i("start", 0), end = c.i("end", x.rank());
  if (start < 0) start += x.rank();
  if (end < 0) end += x.rank();
  start = std::clamp<int64_t>(start, 0, x.rank());
  end = std::clamp<int64_t>(end, start, x.rank());
  c.out(0, c.e.integers({x.shape.begin() + start, x.shape.begin() + end}));
}

void size(OpContext& c) {
  Host host{.dtype = DType::kI64};
  host.ints = {c.e.numel(c.in(0))};
  c.out(0, c.e.from_host(std::move(host)));
}

// The same elements under another shape, of which there are as many.
Tensor reshaped(OpContext& c, const Tensor& x, const Shape& shape) {
  const auto known = [](const Expr& e) { return e.is_constant(); };
  if (const auto host = movable(c.e, x); host && std::all_of(shape.begin(), shape.end(), known)) {
    Host copy = *host;
    copy.dims.clear();
    for (const Expr& dim : shape) copy.dims.push_back(*dim.constant());
    if (checked_count(copy.dims, "shape") != static_cast<int64_t>(copy.count())) {
      throw Error(ErrorKind::kUser, "sizes do not hold as many elements as there are");
    }
    return c.e.from_host(std::move(copy));
  }
  return c.e.counted_reshape(x, shape);
}

void reshape(OpContext& c) {
  const Tensor& x = c.in(0);
  std::vector<Expr> sizes = c.known(1);
  if (sizes.size() > 64) throw Error(ErrorKind::kUser, "rank above 64");
  const bool keeps_zero = c.i("allowzero", 0) != 0;
  int64_t free = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Expr(0) && !keeps_zero) sizes[i] = x.shape.at(i);
    if (!(sizes[i] == Expr(-1))) continue;
    if (free >= 0) throw Error(ErrorKind::kUser, "more than one size of -1");
    free = static_cast<int64_t>(i);
  }
  const Expr total = c.e.numel(x);
  if (free >= 0) {
    sizes[static_cast<size_t>(free)] = 1;
    const Expr others = product(sizes);
    if (others == Expr(0)) throw Error(ErrorKind::kUser, "a size of -1 beside one of 0");
    const auto whole = total.constant(), part = others.constant();
    if (whole && part && *whole % *part != 0) {
      throw Error(ErrorKind::kUser, total.str() + " elements do not divide by " + others.str());
    }
    c.e.require(total, Relation::kMultiple, others);
    sizes[static_cast<size_t>(free)] = floordiv(total, others);
  } else if (const Expr made = product(sizes); !(made == total)) {
    if (made.is_constant() && total.is_constant()) {
      throw Error(ErrorKind::kUser, "got " + total.str() + " elements, want " + made.str());
    }
    // One symbol may have to be a constant here: what is left out of both sides must be equal.
    refuse("sizes " + made.str() + " and " + total.str() + " must be equal");
  }
  c.out(0, reshaped(c, x, sizes));
}

void flatten(OpContext& c) {
  const Tensor& x = c.in(0);
  int64_t axis = c.i("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) throw Error(ErrorKind::kUser, "axis is out of range");
  const std::span<const Expr> dims(x.shape);
  const auto at = static_cast<size_t>(axis);
  c.out(0, reshaped(c, x, {product(dims.first(at)), product(dims.subspan(at))}));
}

void squeeze(OpContext& c) {
  const Tensor& x = c.in(0);
  std::vector<int64_t> axes = c.ints_or_input("axes", 1);
  if (axes.empty()) {
    for (int64_t d = 0; d < x.rank(); ++d) {
      const Expr& size = x.shape[static_cast<size_t>(d)];
      if (size == Expr(1)) axes.push_back(d);
      if (!size.is_constant()) c.e.require(size, Relation::kDiffers, 1);  // it would go
    }
  }
  for (int64_t& axis : axes) axis = Emitter::wrap(axis, x.rank());
  std::sort(axes.rbegin(), axes.rend());
  Shape shape = x.shape;
  for (int64_t axis : axes) {
    if (!(shape.at(static_cast<size_t>(axis)) == Expr(1))) {
      if (!shape[static_cast<size_t>(axis)].is_constant())
        refuse("a dynamic dimension is squeezed");
      throw Error(ErrorKind::kUser, "a dimension that is squeezed has not size 1");
    }
    shape.erase(shape.begin() + axis);
  }
  c.out(0, reshaped(c, x, shape));
}

void unsqueeze(OpContext& c) {
  const Tensor& x = c.in(0);
  std::vector<int64_t> axes = c.ints_or_input("axes", 1);
  const int64_t rank = x.rank() + static_cast<int64_t>(axes.size());
  for (int64_t& axis : axes) axis = Emitter::wrap(axis, rank);
  std::sort(axes.begin(), axes.end());
  Shape shape = x.shape;
  for (int64_t axis : axes) {
    if (axis > static_cast<int64_t>(shape.size())) throw Error(ErrorKind::kUser, "equal axes");
    shape.insert(shape.begin() + axis, Expr(1));
  }
  c.out(0, reshaped(c, x, shape));
}

void transpose(OpContext& c) {
  const Tensor& x = c.in(0);
  std::vector<int64_t> perm = c.ints("perm");
  if (perm.empty()) {
    for (int64_t d = x.rank(); d-- > 0;) perm.push_back(d);
  }
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != all_of(x.rank())) throw Error(ErrorKind::kUser, "perm is no permutation");
  c.out(0, c.e.permute(x, perm));
}

void concat(OpContext& c) {
  const int64_t axis = c.axis("axis", 1, c.in(0).rank());
  std::vector<Tensor> parts;
  bool on_host = true;
  for (size_t i = 0; i < c.count(); ++i) {
    parts.push_back(c.in(i));
    on_host =
        on_host && c.in(i).rank() == 1 && movable(c.e, c.in(i)) && c.in(i).dtype == c.in(0).dtype;
  }
  if (!on_host) {
    // Whatever their shape, empty vectors of one dimension add nothing.
    return c.out(0, c.e.cat(parts, axis));
  }
  Host joined{.dtype = movable(c.e, parts[0])->dtype, .dims = {0}};
  for (const Tensor& part : parts) {
    const auto host = movable(c.e, part);
    joined.ints.insert(joined.ints.end(), host->ints.begin(), host->ints.end());
    joined.floats.insert(joined.floats.end(), host->floats.begin(), host->floats.end());
    joined.baked = joined.baked && host->baked;
  }
  joined.dims[0] = static_cast<int64_t>(joined.count());
  c.out(0, c.e.from_host(std::move(joined)));
}

struct Cut {
  Expr start, end;
  int64_t step = 1;
};

// ONNX's start and end (which may lie outside) as a range within a dimension.
Cut cut_of(OpContext& c, const Expr& size, Expr start, Expr end, int64_t step) {
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  const auto inside = [&](const Expr& at, const Expr& last) -> Expr {
    const auto value = at.constant(), extent = size.constant();
    if (value && extent) {
      const int64_t wrapped = *value < 0 ? *value + *extent : *value;
      return std::clamp<int64_t>(wrapped, step < 0 ? -1 : 0, *last.constant());
    }
    if (value && *value >= kFar) return last;
    if (value && *value <= -kFar) return step < 0 ? -1 : 0;
    if (value && *value < 0) return max(size + at, step < 0 ? -1 : 0);
    if (!value && bounds(c.e, at).first < 0) refuse("a dynamic start or end may be below 0");
    if (at == size) return last;
    const auto [low, high] = bounds(c.e, last - at);
    return low >= 0 ? at : min(at, last);
  };
  if (step < 0) {
    return {inside(start, size - Expr(1)), inside(end, size - Expr(1)), step};
  }
  Cut cut{inside(start, size), inside(end, size), step};
  if (bounds(c.e, cut.end - cut.start).first < 0) cut.end = max(cut.end, cut.start);
  return cut;
}

/// Of numbers that are known, those inside constant cuts of dimensions.
Tensor taken(Emitter& e, const Host& host, const std::vector<std::pair<int64_t, Cut>>& cuts) {
  std::vector<std::vector<int64_t>> take;
  for (int64_t dim : host.dims) take.push_back(all_of(dim));
  for (const auto& [axis, cut] : cuts) {
    auto& indices = take[static_cast<size_t>(axis)];
    indices.clear();
    const int64_t start = *cut.start.constant(), end = *cut.end.constant();
    for (int64_t i = start; cut.step > 0 ? i < end : i > end;) {
      indices.push_back(i);
      if (__builtin_add_overflow(i, cut.step, &i)) break;
    }
  }
  std::vector<int64_t> dims;
  for (const auto& indices : take) dims.push_back(static_cast<int64_t>(indices.size()));
  return pick(e, host, dims, places_of(host.dims, take));
}

Tensor cut_out(Emitter& e, const Tensor& x, int64_t axis, const Cut& cut) {
  if (cut.step > 0) return e.cut(x, axis, cut.start, cut.end, cut.step);
  // Backwards: turn around, then forwards.
  const Expr last = x.shape[static_cast<size_t>(axis)] - Expr(1);
  return e.cut(e.flip(x, {axis}), axis, last - cut.start, max(last - cut.end, last - cut.start),
               -cut.step);
}

void slice(OpContext& c) {
  Tensor x = c.in(0);
  std::vector<Expr> starts, ends;
  std::vector<int64_t> axes, steps;
  if (c.opset() < 10) {
    starts = exprs(c.ints("starts"));
    ends = exprs(c.ints("ends"));
    axes = c.ints("axes");
  } else {
    starts = c.known(1);
    ends = c.known(2);
    if (c.has(3)) axes = c.known_ints(3);
    if (c.has(4)) steps = c.known_ints(4);
  }
  if (axes.empty()) axes = all_of(static_cast<int64_t>(starts.size()));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    throw Error(ErrorKind::kUser, "starts, ends, axes and steps differ in length");
  }
  std::vector<std::pair<int64_t, Cut>> cuts;
  for (size_t k = 0; k < starts.size(); ++k) {
    if (steps[k] == 0 || steps[k] == INT64_MIN) throw Error(ErrorKind::kUser, "a step of 0");
    const int64_t axis = Emitter::wrap(axes[k], x.rank());
    if (std::ranges::find(cuts, axis, &std::pair<int64_t, Cut>::first) != cuts.end()) {
      throw Error(ErrorKind::kUser, "axis " + std::to_string(axis) + " twice");
    }
    cuts.emplace_back(axis,
                      cut_of(c, x.shape[static_cast<size_t>(axis)], starts[k], ends[k], steps[k]));
  }
  const bool constant = std::ranges::all_of(cuts, [](const auto& cut) {
    return cut.second.start.is_constant() && cut.second.end.is_constant();
  });
  if (const auto host = constant ? movable(c.e, x) : nullptr) {
    return c.out(0, taken(c.e, *host, cuts));
  }
  for (const auto& [axis, cut] : cuts) x = cut_out(c.e, x, axis, cut);
  c.out(0, x);
}

void split(OpContext& c) {
  const Tensor& x = c.in(0);
  const int64_t axis = c.axis("axis", 0, x.rank());
  const Expr size = x.shape[static_cast<size_t>(axis)];
  std::vector<Expr> sizes = c.has_attr("split") ? exprs(c.ints("split"))
                            : c.has(1)          ? c.known(1)
                                                : std::vector<Expr>{};
  const auto count = static_cast<int64_t>(c.output_count());
  if (sizes.empty() && !c.has_attr("num_outputs")) c.e.require(size, Relation::kMultiple, count);
  if (sizes.empty()) {
    const Expr each = ceil_div(size, c.i("num_outputs", count));
    Expr left = size;
    for (int64_t k = 0; k < count; ++k) {
      sizes.push_back(k + 1 < count ? each : left);
      left = left - each;
    }
  }
  if (sizes.size() != c.output_count()) throw Error(ErrorKind::kUser, "as many sizes as outputs");
  Expr at, whole;
  for (const Expr& part : sizes) whole += part;
  c.e.require(size, Relation::kEqual, whole);
  for (size_t k = 0; k < sizes.size(); ++k) {
    const auto [low, high] = bounds(c.e, sizes[k]);
    if (high < 0 || (sizes[k].is_constant() && low < 0)) throw Error(ErrorKind::kUser, "size < 0");
    const Expr end = at + sizes[k];
    if (const auto over = (end - size).constant(); over && *over > 0) {
      throw Error(ErrorKind::kUser, "the parts are larger than the whole");
    }
    const auto first = at.constant(), last = end.constant();
    const auto host = x.rank() == 1 && first && last ? movable(c.e, x) : nullptr;
    if (host) {
      std::vector<int64_t> places(static_cast<size_t>(*last - *first));
      std::iota(places.begin(), places.end(), *first);
      c.out(k, pick(c.e, *host, {*last - *first}, places));
    } else {
      c.out(k, c.e.slice(x, axis, at, end));
    }
    at = end;
  }
}

void expand(OpContext& c) {
  const Tensor& x = c.in(0);
  const Shape target = c.known(1);
  const Shape shape = c.e.broadcast(x.shape, target);
  const auto known = [](const Expr& e) { return e.is_constant(); };
  if (const auto host = movable(c.e, x); host && std::all_of(shape.begin(), shape.end(), known)) {
    std::vector<int64_t> dims;
    for (const Expr& dim : shape) dims.push_back(*dim.constant());
    if (checked_count(dims, "shape") <= kMaxHostElements) {
      return c.out(0, pick(c.e, *host, dims, broadcast_places(host->dims, dims)));
    }
  }
  c.out(0, c.e.expand(x, shape));
}

void tile(OpContext& c) {
  const Tensor& x = c.in(0);
  const std::vector<Expr> repeats = c.known(1);
  if (static_cast<int64_t>(repeats.size()) != x.rank()) {
    throw Error(ErrorKind::kUser, "as many repeats as dimensions");
  }
  Shape shape;
  for (size_t d = 0; d < repeats.size(); ++d) shape.push_back(x.shape[d] * repeats[d]);
  c.out(0, c.e.node("aten::repeat", {c.e.arg("self", x), attr_arg("repeats", repeats)}, x.dtype,
                    shape));
}

void constant(OpContext& c) {
  if (c.has_attr("value")) return c.out(0, c.tensor("value"));
  if (c.has_attr("value_float")) {
    return c.out(0, c.e.number(DType::kF32, c.f("value_float", 0)));
  }
  if (c.has_attr("value_int")) {
    Host host{.dtype = DType::kI64};
    host.ints = {c.i("value_int", 0)};
    return c.out(0, c.e.from_host(std::move(host)));
  }
  if (c.has_attr("value_ints")) return c.out(0, c.e.integers(exprs(c.ints("value_ints"))));
  if (c.has_attr("value_floats")) {
    Host host{.dtype = DType::kF32};
    host.floats = c.floats("value_floats");
    host.dims = {static_cast<int64_t>(host.floats.size())};
    return c.out(0, c.e.from_host(std::move(host)));
  }
  refuse("a constant that is no dense tensor of numbers");
}

void constant_of_shape(OpContext& c) {
  const Shape shape = c.known(0);
  Tensor value = c.tensor("value");
  if (!value.present) value = c.e.number(DType::kF32, 0);
  const auto host = c.e.host(value, 1);
  if (!host || host->count() != 1) throw Error(ErrorKind::kUser, "value must be one element");
  std::vector<int64_t> dims;
  bool known = true;
  for (const Expr& dim : shape) {
    const auto size = dim.constant();
    if (size && *size < 0) throw Error(ErrorKind::kUser, "a size below 0");
    known = known && size;
    if (size) dims.push_back(*size);
  }
  const int64_t count = checked_count(dims, "shape");
  const DType dtype = host->dtype;
  Tensor made;
  if (known && count <= (is_float(dtype) ? 256 : kMaxHostElements)) {
    made = pick(c.e, *host, dims, std::vector<int64_t>(static_cast<size_t>(count), 0));
  } else {
    made = is_float(dtype) ? c.e.full(shape, dtype, host->floats[0])
                           : c.e.full_expr(shape, dtype, host->ints[0]);
  }
  made.widened = value.widened;
  c.out(0, std::move(made));
}

const RegisterOnnx ops{{"Shape", shape, Widened::kRead},
                       {"Size", size, Widened::kRead},
                       {"Reshape", reshape, Widened::kMoved},
                       {"Flatten", flatten, Widened::kMoved},
                       {"Squeeze", squeeze, Widened::kMoved},
                       {"Unsqueeze", unsqueeze, Widened::kMoved},
                       {"Transpose", transpose, Widened::kMoved},
                       {"Concat", concat, Widened::kKept},
                       {"Slice", slice, Widened::kMoved},
                       {"Split", split, Widened::kMoved},
                       {"Expand", expand, Widened::kMoved},
                       {"Tile", tile, Widened::kMoved},
                       {"Constant", constant, Widened::kSaid},
                       {"ConstantOfShape", constant_of_shape, Widened::kSaid}};

}  // namespace
}  // namespace tv::onnx

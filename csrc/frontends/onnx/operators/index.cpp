// Reading and writing through indices.

#include <algorithm>
#include <cmath>
#include <optional>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

Expr dim(const Tensor& x, int64_t d) { return x.shape.at(static_cast<size_t>(d)); }

// Known indices lie within a dimension, counted from either end. Of numbers the outermost tell.
void require_inside(Emitter& e, const std::vector<Expr>& places, const Expr& size) {
  const auto inside = [&](const Expr& at) {
    e.require(size, Relation::kAtLeast, at + Expr(1));
    e.require(at + size, Relation::kAtLeast, 0);
  };
  std::optional<int64_t> least, largest;
  for (const Expr& at : places) {
    if (const auto number = at.constant()) {
      least = std::min(least.value_or(*number), *number);
      largest = std::max(largest.value_or(*number), *number);
    } else {
      inside(at);
    }
  }
  if (!least) return;
  inside(Expr(*least));
  inside(Expr(*largest));
}

void require_inside(Emitter& e, const Tensor& index, const Expr& size) {
  if (const auto host = movable(e, index)) require_inside(e, host->ints, size);
}

Tensor size_tensor(Emitter& e, const Expr& size, DType dtype) {
  Host host{.dtype = dtype};
  host.ints = {size};
  return e.from_host(std::move(host));
}

// ONNX counts indices below 0 from the end; of ATen's converters, only that of index does.
Tensor from_start(Emitter& e, const Tensor& index, const Expr& size) {
  if (const auto host = movable(e, index)) {
    Host wrapped = *host;
    bool known = true;
    for (Expr& value : wrapped.ints) {
      const auto constant = value.constant();
      known = known && constant;
      if (constant && *constant < 0) value = value + size;
    }
    if (known) return e.from_host(std::move(wrapped));
  }
  return e.where(e.with("lt", index, 0), e.add(index, size_tensor(e, size, index.dtype)), index);
}

void gather(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &index = c.in(1);
  const int64_t axis = c.axis("axis", 0, x.rank());
  const Expr size = dim(x, axis);
  const auto host = movable(e, x), places = e.host(index);
  if (host && places && host->dims.size() == 1) {
    std::vector<int64_t> sources;
    for (const Expr& place : places->ints) {
      const auto at = place.constant();
      if (!at) refuse("an index that depends on a size");
      if (*at < -host->dims[0] || *at >= host->dims[0]) {
        throw Error(ErrorKind::kUser, "index " + std::to_string(*at) + " is out of range");
      }
      sources.push_back(*at < 0 ? *at + host->dims[0] : *at);
    }
    return c.out(0, pick(e, *host, places->dims, sources));
  }
  require_inside(e, index, size);
  if (places && places->count() == 1 && places->ints[0].is_constant()) {
    const int64_t at = *places->ints[0].constant();
    const auto extent = size.constant();
    if (extent && (at < -*extent || at >= *extent)) {
      throw Error(ErrorKind::kUser, "index " + std::to_string(at) + " is out of range");
    }
    const Expr start = at < 0 ? size + Expr(at) : Expr(at);
    Tensor part = e.slice(x, axis, start, start + Expr(1));
    Shape shape(x.shape.begin(), x.shape.begin() + axis);
    shape.insert(shape.end(), index.shape.begin(), index.shape.end());
    shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
    return c.out(0, e.reshape(part, shape));
  }
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  const Shape count = {product(index.shape)};
  const bool known = movable(e, index) != nullptr;
  const Tensor flat = e.reshape(known ? from_start(e, index, size) : index, count);
  c.out(0, e.reshape(known ? e.index_select(x, axis, flat) : e.index(x, axis, flat), shape));
}

void gather_elements(OpContext& c) {
  const Tensor &x = c.in(0), &index = c.in(1);
  if (index.rank() != x.rank()) throw Error(ErrorKind::kUser, "indices of another rank");
  const int64_t axis = c.axis("axis", 0, x.rank());
  require_inside(c.e, index, dim(x, axis));
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != axis) c.e.require(dim(x, d), Relation::kAtLeast, dim(index, d));
  }
  const Tensor wide = c.e.cast(from_start(c.e, index, dim(x, axis)), DType::kI64);
  c.out(0, c.e.gather(x, axis, wide));
}

// The last dimension of `index` names a place: as row-major numbers over the dimensions it covers.
Tensor flat_places(Emitter& e, const Tensor& index, const Shape& covered) {
  const auto depth = static_cast<int64_t>(covered.size());
  Tensor sum;
  const Shape strides = contiguous_strides(covered);
  const auto host = movable(e, index);
  for (int64_t k = 0; k < depth; ++k) {
    const auto at = static_cast<size_t>(k);
    if (host) {
      std::vector<Expr> column;
      for (size_t i = at; i < host->ints.size(); i += covered.size()) {
        column.push_back(host->ints[i]);
      }
      require_inside(e, column, covered[at]);
    }
    Tensor part = e.select(index, index.rank() - 1, k);
    part = from_start(e, part, covered[at]);
    part = e.mul(part, size_tensor(e, strides[at], index.dtype));
    sum = sum.present ? e.add(sum, part) : part;
  }
  return sum;
}

int64_t depth_of(const Tensor& index, int64_t limit) {
  const auto depth = index.rank() > 0 ? index.shape.back().constant() : std::nullopt;
  if (!depth) refuse("indices whose last size is not known");
  if (*depth < 1 || *depth > limit) throw Error(ErrorKind::kUser, "last size of the indices");
  return *depth;
}

void gather_nd(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &index = c.in(1);
  const int64_t batch = c.i("batch_dims", 0);
  if (batch < 0 || batch >= std::min(x.rank(), index.rank())) {
    throw Error(ErrorKind::kUser, "batch_dims");
  }
  const int64_t depth = depth_of(index, x.rank() - batch);
  const std::span<const Expr> dims(x.shape);
  const auto b = static_cast<size_t>(batch), d = static_cast<size_t>(depth);
  const Expr batches = product(dims.first(b)), rest = product(dims.subspan(b + d));
  const Shape covered(x.shape.begin() + batch, x.shape.begin() + batch + depth);
  for (int64_t k = 0; k < batch; ++k) e.equal(dim(x, k), dim(index, k));
  Tensor places = flat_places(e, index, covered);
  const Expr covered_count = product(covered);
  const Expr each = product(std::span<const Expr>(places.shape).subspan(b));
  places = e.reshape(places, {batches, each});
  if (batch > 0) {
    Tensor start = e.arange(batches, places.dtype);
    start = e.mul(start, size_tensor(e, covered_count, places.dtype));
    places = e.add(places, e.reshape(start, {batches, 1}));
  }
  const Tensor rows = e.reshape(x, {batches * covered_count, rest});
  Shape shape(index.shape.begin(), index.shape.end() - 1);
  shape.insert(shape.end(), x.shape.begin() + batch + depth, x.shape.end());
  c.out(0, e.reshape(e.index_select(rows, 0, e.reshape(places, {batches * each})), shape));
}

std::string reduction_of(OpContext& c) {
  const std::string given = c.s("reduction", "none");
  static const std::map<std::string, std::string> names = {
      {"none", "none"}, {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  const auto found = names.find(given);
  if (found == names.end()) throw Error(ErrorKind::kUser, "reduction " + given);
  return found->second;
}

Tensor scatter(Emitter& e, const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
               const std::string& reduction) {
  const Tensor wide = e.cast(index, DType::kI64);
  if (reduction == "none") {
    return e.node(
        "aten::scatter.src",
        {e.arg("self", x), attr_arg("dim", Expr(axis)), e.arg("index", wide), e.arg("src", source)},
        x.dtype, x.shape);
  }
  return e.node(
      "aten::scatter_reduce.two",
      {e.arg("self", x), attr_arg("dim", Expr(axis)), e.arg("index", wide), e.arg("src", source),
       attr_arg("reduce", reduction), attr_arg("include_self", true)},
      x.dtype, x.shape);
}

void scatter_elements(OpContext& c) {
  const Tensor &x = c.in(0), &index = c.in(1), &source = c.in(2);
  if (index.rank() != x.rank() || source.rank() != x.rank()) {
    throw Error(ErrorKind::kUser, "indices or updates of another rank");
  }
  const int64_t axis = c.axis("axis", 0, x.rank());
  require_inside(c.e, index, dim(x, axis));
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != axis) c.e.require(dim(x, d), Relation::kAtLeast, dim(index, d));
    c.e.equal(dim(index, d), dim(source, d));
  }
  c.out(0, scatter(c.e, x, axis, from_start(c.e, index, dim(x, axis)), source, reduction_of(c)));
}

void scatter_nd(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &index = c.in(1), &source = c.in(2);
  const int64_t depth = depth_of(index, x.rank());
  const auto d = static_cast<size_t>(depth);
  const std::span<const Expr> dims(x.shape);
  const Shape covered(x.shape.begin(), x.shape.begin() + depth);
  const Expr rows = product(dims.first(d)), rest = product(dims.subspan(d));
  const Tensor places = flat_places(e, index, covered);
  const Expr count = product(places.shape);
  const Tensor spread = e.expand(e.reshape(places, {count, 1}), {count, rest});
  const Tensor flat = scatter(e, e.reshape(x, {rows, rest}), 0, spread,
                              e.reshape(source, {count, rest}), reduction_of(c));
  c.out(0, e.reshape(flat, x.shape));
}

void one_hot(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& index = c.in(0);
  const auto depths = e.host(c.in(1), 1);
  if (!depths) refuse("a depth that is computed from data");
  const Expr depth = is_float(depths->dtype) ? Expr(static_cast<int64_t>(depths->floats.at(0)))
                                             : depths->ints.at(0);
  const int64_t axis = Emitter::wrap(c.i("axis", -1), index.rank() + 1);
  const DType wide = DType::kI64;
  const Tensor places = e.unsqueeze(from_start(e, e.cast(index, wide), depth), axis);
  Shape shape(places.shape.size(), Expr(1));
  shape[static_cast<size_t>(axis)] = depth;
  const Tensor hot = e.compare("eq", places, e.reshape(e.arange(depth, wide), shape));
  const Tensor off = e.slice(c.in(2), 0, 0, 1), on = e.slice(c.in(2), 0, 1, 2);
  c.out(0, e.where(hot, e.reshape(on, {}), e.reshape(off, {})));
}

void trilu(OpContext& c) {
  const Tensor& x = c.in(0);
  if (x.rank() < 2) throw Error(ErrorKind::kUser, "want an input of rank 2 or more");
  const int64_t k = c.has(1) ? c.known_ints(1).at(0) : 0;
  c.out(0, c.e.node(c.i("upper", 1) ? "aten::triu" : "aten::tril",
                    {c.e.arg("self", x), attr_arg("diagonal", Expr(k))}, x.dtype, x.shape));
}

void eye_like(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& x = c.in(0);
  if (x.rank() != 2) throw Error(ErrorKind::kUser, "want a matrix");
  const DType dtype = c.dtype("dtype", x.dtype), wide = DType::kI64;
  const Tensor rows = e.reshape(e.arange(x.shape[0], wide), {x.shape[0], 1});
  const Tensor columns = e.reshape(e.arange(x.shape[1], wide), {1, x.shape[1]});
  const Tensor shifted = e.with("add", rows, static_cast<double>(c.i("k", 0)));
  c.out(0, e.cast(e.compare("eq", shifted, columns), dtype));
}

void range(OpContext& c) {
  Emitter& e = c.e;
  const auto start = e.host(c.in(0), 1), limit = e.host(c.in(1), 1), delta = e.host(c.in(2), 1);
  if (!start || !limit || !delta) refuse("a range whose size is computed from data");
  const DType dtype = c.in(0).dtype;
  if (is_float(dtype)) {
    const double from = start->floats.at(0), step = delta->floats.at(0);
    const double size = std::max(0.0, std::ceil((limit->floats.at(0) - from) / step));
    if (!(size <= kMaxHostElements)) refuse("a range of more than 65536 floats");
    const Tensor places = e.cast(e.arange(static_cast<int64_t>(size), DType::kI64), dtype);
    return c.out(0, e.with("add", e.with("mul", places, step), from));
  }
  const Expr from = start->ints.at(0);
  const auto step = delta->ints.at(0).constant();
  if (!step || *step == 0) refuse("a range whose step is 0 or not known");
  const Expr span = *step > 0 ? limit->ints.at(0) - from : from - limit->ints.at(0);
  Expr size = ceil_div(span, std::abs(*step));
  if (bounds(e, size).first < 0) size = max(size, 0);
  const auto count = size.constant();
  if (count && *count <= 4096) {
    std::vector<Expr> values;
    for (int64_t i = 0; i < *count; ++i) values.push_back(from + Expr(i * *step));
    return c.out(0, e.integers(std::move(values), dtype));
  }
  Tensor places = e.arange(size, dtype);
  if (*step != 1) places = e.with("mul", places, static_cast<double>(*step));
  if (!(from == Expr(0))) places = e.add(places, size_tensor(e, from, dtype));
  c.out(0, places);
}

const RegisterOnnx ops{{"Gather", gather, Widened::kMoved},
                       {"GatherElements", gather_elements, Widened::kMoved},
                       {"GatherND", gather_nd, Widened::kMoved},
                       {"ScatterElements", scatter_elements},
                       {"Scatter", scatter_elements},
                       {"ScatterND", scatter_nd},
                       {"OneHot", one_hot},
                       {"Trilu", trilu},
                       {"EyeLike", eye_like},
                       {"Range", range}};

}  // namespace
}  // namespace tv::onnx

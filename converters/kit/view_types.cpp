#include "converters/kit/view_types.h"

#include <algorithm>

namespace tv::types {
namespace {

size_t dim_of(const NodeTypes& t, const Shape& shape, const char* arg = "dim") {
  return static_cast<size_t>(t.wrap(t.integer(arg, 0), static_cast<int64_t>(shape.size())));
}

/// An operand that the rest of a rule takes a dimension of.
Shape with_dims(const NodeTypes& t, const char* arg = "self") {
  Shape shape = t.shape(arg);
  t.want(!shape.empty(), "a scalar has no dimensions");
  return shape;
}

Shape without(Shape shape, size_t dim) {
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return shape;
}

/// The shape of a diagonal; its length only where it is known.
Shape diagonal_of(NodeTypes& t, const Shape& known) {
  const Shape shape = t.shape("self");
  t.want(shape.size() >= 2, "wants two dimensions");
  const size_t a = dim_of(t, shape, "dim1");
  const auto b =
      static_cast<size_t>(t.wrap(t.integer("dim2", 1), static_cast<int64_t>(shape.size())));
  t.want(a != b, "the two dims are one");
  Shape made;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != a && i != b) made.push_back(shape[i]);
  }
  const int64_t offset = t.integer("offset", 0);
  t.want(offset > -kUnbounded / 2 && offset < kUnbounded / 2, "the offset is out of range");
  const Expr rows = offset < 0 ? shape[a] + offset : shape[a];
  const Expr columns = offset > 0 ? shape[b] - offset : shape[b];
  const Expr length = max(Expr(0), min(rows, columns));
  // PyTorch has other expressions for the same lengths; that of a view is checked as such.
  made.push_back(length.is_constant() || known.empty() ? length : known.back());
  return made;
}

/// A slice's shape; a length that depends on symbols is the one that is there, which may not reach
/// beyond the end.
Shape slice_of(NodeTypes& t, const Shape& known) {
  Shape shape = with_dims(t);
  const size_t dim = dim_of(t, shape);
  const int64_t step = t.integer("step", 1);
  t.want(step > 0, "wants a step above 0");
  t.want(known.size() == shape.size(), "wants as many dimensions as the operand has");
  const Expr &size = shape[dim], start = t.expr("start", 0), end = t.expr("end", kUnbounded);
  const auto n = size.constant(), from = start.constant(), to = end.constant();
  if (n && from && to) {
    const auto place = [&](int64_t p) { return std::clamp<int64_t>(p < 0 ? p + *n : p, 0, *n); };
    const int64_t count = std::max<int64_t>(0, place(*to) - place(*from));
    shape[dim] = count / step + (count % step != 0 ? 1 : 0);
  } else {
    t.at_least(size, known[dim], "the size that is cut");
    shape[dim] = known[dim];
  }
  return shape;
}

Shape selected_of(NodeTypes& t) {
  const Shape shape = with_dims(t);
  const size_t dim = dim_of(t, shape);
  const auto index = t.node().expr("index").constant(), size = shape[dim].constant();
  if (index && size) {
    t.want(*index >= -*size && *index < *size, "index " + std::to_string(*index) +
                                                   " is out of range for a size of " +
                                                   std::to_string(*size));
  }
  return without(shape, dim);
}

/// Parts of one length, the last of which may be shorter.
void cut_evenly(NodeTypes& t, const Shape& shape, size_t dim, const Expr& length) {
  t.at_least(length, 0, "the length of a part");
  for (size_t i = 0; i < t.results(); ++i) {
    if (!t.has_result(i)) continue;
    Shape part = shape;
    const Expr left = shape[dim] - length * Expr(static_cast<int64_t>(i));
    const Expr size = min(length, left);
    const Shape known = t.result(i);
    t.want(known.size() == shape.size(), "a result has another rank");
    part[dim] = size.is_constant() ? size : known[dim];
    t.gives(part, i);
  }
}

/// Of elements that lie anywhere in the operand.
void strided(NodeTypes& t, const Shape& part) {
  const std::vector<Expr> sizes = t.node().exprs("size"), strides = t.node().exprs("stride");
  t.want(sizes.size() == strides.size(), "wants as many strides as sizes");
  t.equal(part, sizes, "the part");
  Expr last = t.expr("storage_offset", 0);
  t.at_least(last, 0, "the offset");
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Expr(0)) return;
    t.at_least(strides[i], 0, "a stride");
    last += (sizes[i] - 1) * strides[i];
  }
  t.at_least(product(t.shape("self")), last + 1, "the number of elements");
}

/// `src` takes the place of a part.
TypeRule put_in(const std::function<Shape(NodeTypes&, const Shape&)>& part) {
  return [part](NodeTypes& t) {
    const Shape src = t.shape("src");
    t.equal(src, part(t, src), "argument 'src'");
    t.gives(t.shape("self"));
  };
}

}  // namespace

void reshaped(NodeTypes& t) {
  if (t.has_result(0)) {
    t.equal(product(t.shape("self")), product(t.result()), "the number of elements");
  }
}

void permuted(NodeTypes& t) {
  const Shape shape = t.shape("self");
  const std::vector<int64_t> dims = t.node().integers("dims");
  t.want(dims.size() == shape.size(), "wants as many dims as the operand has");
  Shape made;
  std::vector<bool> used(shape.size());
  for (const int64_t dim : dims) {
    const auto d = static_cast<size_t>(t.wrap(dim, static_cast<int64_t>(shape.size())));
    t.want(!used[d], "dim " + std::to_string(dim) + " is there twice");
    used[d] = true;
    made.push_back(shape[d]);
  }
  t.gives(made);
}

void swapped(NodeTypes& t) {
  Shape shape = t.shape("self");
  const bool axes = t.node().find("axis0") != nullptr;
  const size_t a = dim_of(t, shape, axes ? "axis0" : "dim0");
  const size_t b = dim_of(t, shape, axes ? "axis1" : "dim1");
  if (!shape.empty()) std::swap(shape[a], shape[b]);
  t.gives(shape);
}

void last_swapped(NodeTypes& t) {
  Shape shape = t.shape("self");
  if (t.node().op.ends_with("::t")) t.want(shape.size() <= 2, "the operand has a rank above 2");
  if (shape.size() >= 2) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  t.gives(shape);
}

void reversed(NodeTypes& t) {
  Shape shape = t.shape("self");
  std::ranges::reverse(shape);
  t.gives(shape);
}

void expanded(NodeTypes& t) {
  if (t.has_result(0)) t.spreads(t.shape("self"), t.result(), "argument 'self'");
}

void unsqueezed(NodeTypes& t) {
  Shape shape = t.shape("self");
  const int64_t dim = t.wrap(t.integer("dim", 0), static_cast<int64_t>(shape.size()) + 1);
  shape.insert(shape.begin() + dim, Expr(1));
  t.gives(shape);
}

void squeezed(NodeTypes& t) {
  const Shape shape = t.shape("self");
  std::vector<bool> goes(shape.size(), !t.has("dim"));
  for (const int64_t dim : t.node().integers("dim")) {
    const int64_t d = t.wrap(dim, static_cast<int64_t>(shape.size()));
    if (!shape.empty()) goes[static_cast<size_t>(d)] = true;
  }
  Shape made;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!goes[i] || !(shape[i] == Expr(1))) made.push_back(shape[i]);
  }
  t.gives(made);
}

void diagonal(NodeTypes& t) {
  if (t.has_result(0)) t.gives(diagonal_of(t, t.result()));
}

TypeRule diagonal_put() { return put_in(diagonal_of); }

void slice(NodeTypes& t) {
  if (t.has_result(0)) t.gives(slice_of(t, t.result()));
}

TypeRule slice_put() { return put_in(slice_of); }

void selected(NodeTypes& t) { t.gives(selected_of(t)); }

TypeRule selected_put() {
  return put_in([](NodeTypes& t, const Shape&) { return selected_of(t); });
}

void narrowed(NodeTypes& t) {
  Shape shape = with_dims(t);
  const size_t dim = dim_of(t, shape);
  const Expr length = t.node().expr("length"), start = t.node().expr("start");
  t.at_least(shape[dim], length, "the size that is cut");
  if (start.constant().value_or(0) >= 0) {
    t.at_least(shape[dim] - length, start, "what is behind the start");
  }
  shape[dim] = length;
  t.gives(shape);
}

void unbound(NodeTypes& t) {
  const Shape shape = with_dims(t);
  const size_t dim = dim_of(t, shape);
  t.equal(shape[dim], static_cast<int64_t>(t.results()), "the size that is cut");
  for (size_t i = 0; i < t.results(); ++i) t.gives(without(shape, dim), i);
}

void split(NodeTypes& t) {
  const Shape shape = with_dims(t);
  cut_evenly(t, shape, dim_of(t, shape), t.node().expr("split_size"));
}

void chunk(NodeTypes& t) {
  const Shape shape = with_dims(t);
  const size_t dim = dim_of(t, shape);
  const int64_t chunks = t.integer("chunks", 1);
  t.want(chunks > 0, "wants chunks above 0");
  cut_evenly(t, shape, dim, ceil_div(shape[dim], chunks));
}

void split_by_sizes(NodeTypes& t) {
  const Shape shape = with_dims(t);
  const size_t dim = dim_of(t, shape);
  const std::vector<Expr> sizes =
      t.node().exprs(t.node().find("split_sizes") != nullptr ? "split_sizes" : "split_size");
  t.want(sizes.size() == t.results(), "has another number of results than of sizes");
  Expr sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    t.at_least(sizes[i], 0, "the length of a part");
    sum += sizes[i];
    Shape part = shape;
    part[dim] = sizes[i];
    t.gives(part, i);
  }
  t.equal(sum, shape[dim], "the sum of the parts' lengths");
}

void strided_view(NodeTypes& t) {
  if (t.has_result(0)) strided(t, t.result());
}

void strided_put(NodeTypes& t) {
  strided(t, t.shape("src"));
  t.gives(t.shape("self"));
}

void unfolded(NodeTypes& t) {
  Shape shape = t.shape("self");
  const int64_t size = t.integer("size", 1), step = t.integer("step", 1);
  t.want(size >= 0 && step > 0, "wants a size of at least 0 and a step above 0");
  if (!shape.empty()) {
    const size_t dim = dim_of(t, shape, "dimension");
    t.at_least(shape[dim], size, "the size that is cut");
    shape[dim] = floordiv(shape[dim] - size, step) + 1;
  } else {
    t.want(size <= 1, "a scalar has one element");
  }
  shape.emplace_back(size);
  t.gives(shape);
}

void other_type(NodeTypes& t) {
  if (!t.has_result(0)) return;
  Shape shape = t.shape("self");
  const auto from = static_cast<int64_t>(size_bytes(t.dtype("self")));
  const auto to = static_cast<int64_t>(size_bytes(t.result_dtype()));
  t.want(!shape.empty() || from == to, "a scalar keeps its number of bytes");
  const Shape known = t.result();
  t.want(known.size() == shape.size(), "the result has another rank");
  if (shape.empty()) return;
  t.equal(known.back() * to, shape.back() * from, "the number of bytes of a row");
  shape.back() = known.back();
  t.gives(shape);
}

}  // namespace tv::types

#include "converters/indexing/indexing_types.h"

#include <algorithm>

namespace tv::types {
namespace {

/// A scalar is a row of one element.
Shape as_row(Shape shape) {
  if (shape.empty()) shape.emplace_back(1);
  return shape;
}

size_t wrapped(const NodeTypes& t, const Shape& shape) {
  return static_cast<size_t>(t.wrap(t.node().integer("dim"), static_cast<int64_t>(shape.size())));
}

bool is_empty(const Shape& shape) { return std::ranges::find(shape, Expr(0)) != shape.end(); }

/// That each element of `index` lies in the operand, along all dimensions but one.
void check_index(NodeTypes& t, const Shape& self, const Shape& index, size_t dim) {
  if (is_empty(index)) return;
  t.want(index.size() == self.size(), "argument 'index' is of another rank");
  for (size_t i = 0; i < self.size(); ++i) {
    if (i != dim) t.at_least(self[i], index[i], "a size of argument 'self'");
  }
}

Expr count_of(const NodeTypes& t) {
  const Shape index = as_row(t.shape("index"));
  t.want(index.size() == 1, "argument 'index' is of a rank above 1");
  return index[0];
}

bool has_mask(const NodeTypes& t) {
  return std::ranges::any_of(t.node().inputs("indices"), [&](ValueId v) {
    if (v == kNoValue) return false;
    const DType dtype = t.graph().value(v).dtype;
    return dtype == DType::kBool || dtype == DType::kU8;
  });
}

/// The shape of what a list of indices, some of them None, picks of an operand.
Shape picked(NodeTypes& t, const Shape& self) {
  const std::vector<ValueId>& indices = t.node().inputs("indices");
  t.want(indices.size() <= self.size(), "has more indices than the operand has dimensions");
  Shape made, at;
  size_t first = self.size(), last = 0, count = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] == kNoValue) continue;
    at = t.broadcast(at, t.graph().value(indices[i]).shape, "a size of an index");
    first = std::min(first, i);
    last = i;
    ++count;
  }
  t.want(count > 0, "wants an index");
  // Where None stands between indices, their dimensions come first.
  const bool together = last - first + 1 == count;
  if (!together) made = at;
  for (size_t i = 0; i < self.size(); ++i) {
    if (together && i == first) made.insert(made.end(), at.begin(), at.end());
    if (i >= indices.size() || indices[i] == kNoValue) made.push_back(self[i]);
  }
  return made;
}

}  // namespace

void gather(NodeTypes& t) {
  const Shape self = as_row(t.shape("self")), index = as_row(t.shape("index"));
  check_index(t, self, index, wrapped(t, self));
  t.gives(t.shape("index"));
}

void scatter(NodeTypes& t) {
  const Shape self = as_row(t.shape("self")), index = as_row(t.shape("index"));
  check_index(t, self, index, wrapped(t, self));
  const Arg* src = t.node().find("src");
  if (src != nullptr && src->is_tensor && !is_empty(index)) {
    const Shape from = as_row(t.shape("src"));
    t.want(from.size() == index.size(), "argument 'src' is of another rank");
    for (size_t i = 0; i < from.size(); ++i) {
      t.at_least(from[i], index[i], "a size of argument 'src'");
    }
  }
  t.gives(t.shape("self"));
}

void index_select(NodeTypes& t) {
  Shape shape = t.shape("self");
  const Shape row = as_row(shape);
  const size_t dim = wrapped(t, row);
  const Expr count = count_of(t);
  if (shape.empty()) {
    t.equal(count, 1, "the number of indices");
  } else {
    shape[dim] = count;
  }
  t.gives(shape);
}

void index_reduce(NodeTypes& t) {
  const Shape self = t.shape("self");
  Shape row = as_row(self);
  row[wrapped(t, row)] = count_of(t);
  t.equal(as_row(t.shape("source")), row, "argument 'source'");
  t.gives(self);
}

void index(NodeTypes& t) {
  if (has_mask(t)) return;  // the converter refuses it: how much it picks depends on its elements
  t.gives(picked(t, t.shape("self")));
}

void index_put(NodeTypes& t) {
  const Shape self = t.shape("self");
  if (has_mask(t)) {
    size_t rank = 0;
    for (const ValueId v : t.node().inputs("indices")) {
      rank += v == kNoValue ? 1 : std::max<size_t>(1, t.graph().value(v).shape.size());
    }
    t.want(rank <= self.size(), "has more indices than the operand has dimensions");
  } else {
    t.spreads(t.shape("values"), picked(t, self), "argument 'values'");
  }
  t.gives(self);
}

void put(NodeTypes& t) {
  t.equal(product(t.shape("source")), product(t.shape("index")), "the number of elements");
  t.gives(t.shape("self"));
}

void masked_scatter(NodeTypes& t) {
  t.gives(t.broadcast(t.shape("self"), t.shape("mask"), "a size of argument 'mask'"));
}

TypeRule of_table(const char* text) {
  return TypeRule(text) & [](NodeTypes& t) {
    if (t.has_result(0)) t.equal(t.result()[0], t.node().expr("num_weights"), "the rows");
  };
}

}  // namespace tv::types

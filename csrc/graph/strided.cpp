#include "csrc/graph/strided.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"

namespace tv {

namespace {

bool is_one(const Expr& e) { return e == Expr(1); }

bool has_constant_zero(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Expr& d) { return d == Expr(0); });
}

}  // namespace

std::vector<Symbol> practical(std::vector<Symbol> symbols) {
  for (Symbol& s : symbols) {
    if (s.max == kUnbounded) s.max = std::max(s.min, s.opt);
  }
  return symbols;
}

double most_elements(const Shape& shape, const std::vector<Symbol>& symbols) {
  const std::vector<Symbol> bounded = practical(symbols);
  // The bounds of the dimensions, not of their product: a product that overflows has no sign.
  double elements = 1;
  for (const Expr& dim : shape) {
    elements *= static_cast<double>(std::max<int64_t>(0, dim.bounds(bounded).second));
  }
  return elements;
}

View layout_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.view) return *value.view;
  return {id, Expr(0), contiguous_strides(value.shape)};
}

bool is_dense(const Shape& shape, const Shape& strides) {
  return has_constant_zero(shape) || same_strides(shape, strides, contiguous_strides(shape));
}

bool same_strides(const Shape& shape, const Shape& a, const Shape& b) {
  if (a.size() != shape.size() || b.size() != shape.size()) return false;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (!is_one(shape[k]) && !(a[k] == b[k])) return false;
  }
  return true;
}

Expr span_elements(const Shape& shape, const Shape& strides, std::span<const Symbol> symbols) {
  if (has_constant_zero(shape)) return 0;
  Expr last = 0;
  bool may_be_empty = false;
  for (size_t k = 0; k < shape.size(); ++k) {
    last += (shape[k] - Expr(1)) * strides[k];
    may_be_empty |= shape[k].bounds(symbols).first < 1;
  }
  const Expr span = last + Expr(1);
  return may_be_empty ? max(span, Expr(0)) : span;
}

Shape broadcast_strides(const Shape& shape, const Shape& strides, const Shape& to) {
  if (shape.size() > to.size()) {
    throw Error(ErrorKind::kInternal, "[layout] cannot broadcast rank " +
                                          std::to_string(shape.size()) + " to rank " +
                                          std::to_string(to.size()));
  }
  Shape result(to.size(), Expr(0));
  const size_t lead = to.size() - shape.size();
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == to[lead + k]) {
      result[lead + k] = strides[k];
    } else if (!is_one(shape[k])) {
      throw Error(ErrorKind::kInternal, "[layout] cannot broadcast a dimension of " +
                                            shape[k].str() + " to " + to[lead + k].str());
    }
  }
  return result;
}

void collapse(Shape& shape, Shape& strides) {
  Shape out_shape, out_strides;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (is_one(shape[k])) continue;
    if (!out_shape.empty() && out_strides.back() == shape[k] * strides[k]) {
      out_shape.back() *= shape[k];
      out_strides.back() = strides[k];
    } else {
      out_shape.push_back(shape[k]);
      out_strides.push_back(strides[k]);
    }
  }
  shape = std::move(out_shape);
  strides = std::move(out_strides);
}

std::vector<int64_t> dense_order(const Shape& shape, const Shape& strides) {
  // Builds the order from the innermost: the next dimension is the one whose stride is the product
  // of those before it. Dimensions of size 1 fit anywhere and go where row-major has them.
  const size_t rank = shape.size();
  std::vector<bool> used(rank, false);
  std::vector<int64_t> order;
  Expr expected = 1;
  while (order.size() < rank) {
    int64_t found = -1;
    for (size_t k = rank; k-- > 0;) {
      if (!used[k] && (is_one(shape[k]) || strides[k] == expected)) {
        found = static_cast<int64_t>(k);
        break;
      }
    }
    if (found < 0) return {};
    used[static_cast<size_t>(found)] = true;
    order.push_back(found);
    expected *= shape[static_cast<size_t>(found)];
  }
  std::reverse(order.begin(), order.end());
  return order;
}

Shape strides_in_order(const Shape& shape, const std::vector<int64_t>& order) {
  Shape strides(shape.size());
  Expr step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[static_cast<size_t>(order[k])] = step;
    step *= shape[static_cast<size_t>(order[k])];
  }
  return strides;
}

}  // namespace tv

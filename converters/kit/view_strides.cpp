#include "converters/kit/view_strides.h"

#include <algorithm>
#include <limits>

namespace tv {

namespace {

/// Whether `value` is 0 or more by the ranges, or because a condition says that a smaller one is.
bool is_natural(const Expr& value, const Graph& graph) {
  if (value.bounds(graph.symbols).first >= 0) return true;
  return std::ranges::any_of(graph.conditions, [&](const Condition& c) {
    if (c.relation != Relation::kAtLeast) return false;
    return (value - (c.left - c.right)).bounds(graph.symbols).first >= 0;
  });
}

}  // namespace

std::optional<Expr> from_front(const Expr& index, const Expr& size, const Graph& graph) {
  if (is_natural(index, graph)) return index;
  if (is_natural(Expr(-1) - index, graph)) return size + index;
  return std::nullopt;
}

std::optional<Expr> slice_bound(const Expr& index, const Expr& size, const Graph& graph) {
  // INT64_MAX says "to the end"; such numbers must not meet arithmetic that could overflow.
  if (const auto c = index.constant()) {
    const auto limit = int64_t{1} << 40;
    if (*c >= limit) return size;
    if (*c <= -limit) return Expr(0);
  }
  const std::optional<Expr> front = from_front(index, size, graph);
  if (!front) return std::nullopt;
  Expr bound = *front;
  if (!is_natural(bound, graph)) bound = max(bound, 0);
  if (!is_natural(size - bound, graph)) bound = min(bound, size);
  return bound;
}

namespace {

/// Adjacent dimensions that step through memory like one.
struct Run {
  Expr numel = 1;
  Expr stride;  ///< of the innermost element
};

/// The runs of a tensor, innermost first; dimensions of size 1 have no place in them.
std::vector<Run> runs_of(std::span<const Expr> shape, std::span<const Expr> strides) {
  std::vector<Run> runs;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == Expr(1)) continue;
    if (!runs.empty() && strides[i] == runs.back().stride * runs.back().numel) {
      runs.back().numel *= shape[i];
    } else {
      runs.push_back({shape[i], strides[i]});
    }
  }
  return runs;
}

}  // namespace

std::optional<Shape> reshaped_strides(std::span<const Expr> in, std::span<const Expr> strides,
                                      std::span<const Expr> out) {
  const std::vector<Run> runs = runs_of(in, strides);
  const bool dense = runs.empty() || (runs.size() == 1 && runs[0].stride == Expr(1));
  for (const Expr& d : out) {
    if (d == Expr(0)) return contiguous_strides(out);
  }
  if (dense) return contiguous_strides(out);

  Shape result(out.size(), Expr(1));
  size_t run = 0;
  Expr taken = 1;  // elements of the current run that output dimensions already cover
  for (size_t i = out.size(); i-- > 0;) {
    if (out[i] == Expr(1)) {
      result[i] = run < runs.size() ? runs[run].stride * taken : Expr(1);
      continue;
    }
    if (run == runs.size()) return std::nullopt;
    result[i] = runs[run].stride * taken;
    taken *= out[i];
    if (taken == runs[run].numel) {
      ++run;
      taken = 1;
    }
  }
  if (run != runs.size()) return std::nullopt;
  return result;
}

}  // namespace tv

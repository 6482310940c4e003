#include "converters/distance/distance_types.h"

#include <algorithm>

#include "converters/kit/shape_types.h"

namespace tv::types {

void distances(NodeTypes& t) {
  const Shape a = t.shape("x1"), b = t.shape("x2");
  t.want(a.size() >= 2 && b.size() >= 2, "an operand is no matrix");
  t.equal(b.back(), a.back(), "the last size of argument 'x2'");
  const Shape made = joined_shape(t.broadcast(leading(a, 2), leading(b, 2), "a batch"),
                                  {a[a.size() - 2], b[b.size() - 2]});
  if (!t.has("grad")) return t.gives(made);
  t.equal(t.shape("grad"), made, "argument 'grad'");
  t.equal(t.shape("cdist"), made, "argument 'cdist'");
  // No elements: PyTorch returns zeros like x1, batches that are broadcast or not.
  const bool empty = a.back() == Expr(0) || std::ranges::find(made, Expr(0)) != made.end();
  t.gives(empty ? a : joined_shape(leading(made, 2), {a[a.size() - 2], a.back()}));
}

void distances_of_pairs(NodeTypes& t) {
  const Shape shape = t.shape("self");
  t.want(shape.size() == 2, "the operand is no matrix");
  const Expr pairs = floordiv(shape[0] * (shape[0] - 1), 2);
  if (!t.has("grad")) return t.gives({pairs});
  t.equal(t.shape("grad"), {pairs}, "argument 'grad'");
  t.equal(t.shape("pdist"), {pairs}, "argument 'pdist'");
  t.gives(shape);
}

}  // namespace tv::types

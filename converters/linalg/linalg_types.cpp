#include "converters/linalg/linalg_types.h"

#include "converters/kit/shape_types.h"

namespace tv::types {
namespace {

bool left_of(const NodeTypes& t) { return !t.has("left") || t.node().flag("left"); }

/// X of A X = B, or of X A = B: B's shape, and A's batch.
void check_solved(NodeTypes& t, const char* matrix, const char* right, bool left) {
  const Shape a = t.shape(matrix), b = t.shape(right);
  t.want(a.size() >= 2 && b.size() >= 2, "an operand is no matrix");
  t.equal(a[a.size() - 2], a.back(), "the rows of the matrix");
  t.equal(b[b.size() - (left ? 2 : 1)], a.back(), "a size of the right side");
  t.gives(joined_shape(t.broadcast(leading(a, 2), leading(b, 2), "a batch"),
                       {b[b.size() - 2], b.back()}));
}

}  // namespace

void solve_ex(NodeTypes& t) {
  const Shape a = t.shape("A");
  Shape b = t.shape("B");
  t.want(a.size() >= 2 && !b.empty(), "an operand is no matrix");
  t.equal(a[a.size() - 2], a.back(), "the rows of the matrix");
  // A vector for each matrix, as torch.linalg.solve takes it.
  const bool vectors = b.size() == 1 || (b.size() + 1 == a.size() && b == leading(a, 1));
  if (!vectors) return check_solved(t, "A", "B", left_of(t));
  t.equal(b.back(), a.back(), "a size of the right side");
  t.gives(joined_shape(t.broadcast(leading(a, 2), leading(b, 1), "a batch"), {a.back()}));
}

void lu_solve(NodeTypes& t) {
  const Shape lu = t.shape("LU");
  t.want(lu.size() >= 2, "an operand is no matrix");
  t.equal(t.shape("pivots"), leading(lu, 1), "argument 'pivots'");
  check_solved(t, "LU", "B", left_of(t));
}

TypeRule solves(const char* matrix, const char* right) {
  return [=](NodeTypes& t) { check_solved(t, matrix, right, left_of(t)); };
}

}  // namespace tv::types

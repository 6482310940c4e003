// Products of matrices, attention, linear algebra and distances.

#include <algorithm>

#include "csrc/operators/rules.h"

namespace tv {
namespace {

/// All but the last `count` sizes.
Shape lead_of(const Shape& shape, size_t count) {
  return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(count));
}

Shape with(Shape lead, std::initializer_list<Expr> last) {
  lead.insert(lead.end(), last);
  return lead;
}

/// torch.matmul's result of two operands.
Shape product_of(NodeTypes& t, const char* first, const char* second) {
  Shape a = t.shape(first), b = t.shape(second);
  t.want(!a.empty() && !b.empty(), "a scalar is no matrix");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), Expr(1));
  if (column) b.emplace_back(1);
  t.equal(b[b.size() - 2], a.back(), std::string("the rows of argument '") + second + "'");
  Shape made = t.broadcast(lead_of(a, 2), lead_of(b, 2), "a batch");
  if (!row) made.push_back(a[a.size() - 2]);
  if (!column) made.push_back(b.back());
  return made;
}

void matmul(NodeTypes& t) { t.gives(product_of(t, "self", "other")); }

/// One zero point, or one of each row of the operand.
void zero_points(NodeTypes& t) {
  for (const auto& [zero, operand] : {std::pair{"a_zero", "a"}, {"b_zero", "b"}}) {
    if (!t.has(zero)) continue;
    const Shape shape = t.shape(zero), rows = t.shape(operand);
    t.want(shape.size() == 2, std::string("argument '") + zero + "' is not of rank 2");
    t.equal(shape[1], 1, zero);
    if (!(shape[0] == Expr(1))) t.equal(shape[0], rows[rows.size() - 2], zero);
  }
}

/// Query, key and value of one rank; with grouped heads query has a multiple of the others'.
struct Attention {
  Shape lead = {};
  Expr rows, columns, size;
};

Attention attention_of(NodeTypes& t) {
  const Shape q = t.shape("query"), k = t.shape("key"), v = t.shape("value");
  t.want(q.size() >= 2 && k.size() >= 2 && v.size() >= 2, "an operand is no matrix");
  t.equal(k.back(), q.back(), "the last size of argument 'key'");
  t.equal(v[v.size() - 2], k[k.size() - 2], "the rows of argument 'value'");
  Attention made{.rows = q[q.size() - 2], .columns = k[k.size() - 2], .size = v.back()};
  // Those of PyTorch's fused operators have no argument that says so.
  const bool may_group = t.node().find("enable_gqa") == nullptr && q.size() >= 3 &&
                         q.size() == k.size() && !(q[q.size() - 3] == k[k.size() - 3]);
  if (may_group || t.node().flag("enable_gqa")) {
    t.want(q.size() >= 3 && k.size() == q.size() && v.size() == q.size(),
           "grouped heads want operands of one rank above 2");
    for (size_t i = 0; i + 3 < q.size(); ++i) {
      t.equal(k[i], q[i], "a size of argument 'key'");
      t.equal(v[i], q[i], "a size of argument 'value'");
    }
    const size_t heads = q.size() - 3;
    for (const Expr& other : {k[heads], v[heads]}) {
      t.at_least(other, 1, "the number of heads");
      t.equal(mod(q[heads], other), 0, "what is left of the query's heads");
    }
    made.lead = lead_of(q, 2);
  } else {
    made.lead =
        t.broadcast(t.broadcast(lead_of(q, 2), lead_of(k, 2), "a batch"), lead_of(v, 2), "a batch");
  }
  for (const char* mask : {"attn_mask", "attn_bias", "dropout_mask"}) {
    if (t.has(mask)) {
      t.spreads(t.shape(mask), with(made.lead, {made.rows, made.columns}), mask);
    }
  }
  return made;
}

void attention(NodeTypes& t) {
  const Attention a = attention_of(t);
  t.gives(with(a.lead, {a.rows, a.size}));
}

void attention_backward(NodeTypes& t) {
  const Attention a = attention_of(t);
  const char* grad = t.node().find("grad_out_") != nullptr ? "grad_out_" : "grad_out";
  for (const char* arg : {grad, "out"}) {
    t.equal(t.shape(arg), with(a.lead, {a.rows, a.size}), std::string("argument '") + arg + "'");
  }
  t.gives(t.shape("query"), 0);
  t.gives(t.shape("key"), 1);
  t.gives(t.shape("value"), 2);
}

void trilinear(NodeTypes& t) {
  size_t rank = 0;
  for (const auto& [tensor, dims] :
       {std::pair{"i1", "expand1"}, {"i2", "expand2"}, {"i3", "expand3"}}) {
    const size_t its = t.shape(tensor).size() + t.node().exprs(dims).size();
    t.want(rank == 0 || its == rank, "the operands' ranks differ");
    rank = its;
  }
}

/// Two sets of points.
void distances(NodeTypes& t) {
  const Shape a = t.shape("x1"), b = t.shape("x2");
  t.want(a.size() >= 2 && b.size() >= 2, "an operand is no matrix");
  t.equal(b.back(), a.back(), "the last size of argument 'x2'");
  const Shape made = with(t.broadcast(lead_of(a, 2), lead_of(b, 2), "a batch"),
                          {a[a.size() - 2], b[b.size() - 2]});
  if (!t.has("grad")) return t.gives(made);
  t.equal(t.shape("grad"), made, "argument 'grad'");
  t.equal(t.shape("cdist"), made, "argument 'cdist'");
  // No elements: PyTorch returns zeros like x1, batches that are broadcast or not.
  const bool empty = a.back() == Expr(0) || std::ranges::find(made, Expr(0)) != made.end();
  t.gives(empty ? a : with(lead_of(made, 2), {a[a.size() - 2], a.back()}));
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

/// X of A X = B, or of X A = B: B's shape, and A's batch.
void solves(NodeTypes& t, const char* matrix, const char* right, bool left) {
  const Shape a = t.shape(matrix), b = t.shape(right);
  t.want(a.size() >= 2 && b.size() >= 2, "an operand is no matrix");
  t.equal(a[a.size() - 2], a.back(), "the rows of the matrix");
  t.equal(b[b.size() - (left ? 2 : 1)], a.back(), "a size of the right side");
  t.gives(with(t.broadcast(lead_of(a, 2), lead_of(b, 2), "a batch"), {b[b.size() - 2], b.back()}));
}

bool left_of(const NodeTypes& t) { return !t.has("left") || t.node().flag("left"); }

void solve_ex(NodeTypes& t) {
  const Shape a = t.shape("A");
  Shape b = t.shape("B");
  t.want(a.size() >= 2 && !b.empty(), "an operand is no matrix");
  t.equal(a[a.size() - 2], a.back(), "the rows of the matrix");
  // A vector for each matrix, as torch.linalg.solve takes it.
  const bool vectors = b.size() == 1 || (b.size() + 1 == a.size() && b == lead_of(a, 1));
  if (!vectors) return solves(t, "A", "B", left_of(t));
  t.equal(b.back(), a.back(), "a size of the right side");
  t.gives(with(t.broadcast(lead_of(a, 2), lead_of(b, 1), "a batch"), {a.back()}));
}

void lu_solve(NodeTypes& t) {
  const Shape lu = t.shape("LU");
  t.want(lu.size() >= 2, "an operand is no matrix");
  t.equal(t.shape("pivots"), lead_of(lu, 1), "argument 'pivots'");
  solves(t, "LU", "B", left_of(t));
}

}  // namespace

void add_matrix_rules(TypeRules& rules) {
  rules.add("mm", "self T[m k], mat2 T[k n] -> [m n]");
  rules.add("_int_mm", "self i[m k], mat2 i[k n] -> [m n]");
  rules.add("_scaled_mm", "self [m k], mat2 [k n] -> [m n]");
  rules.add("bmm", "self [b m k], mat2 [b k n] -> [b m n]");
  rules.add("mv", "self [m k], vec [k] -> [m]");
  rules.add("dot vdot", "self [n], tensor [n] -> [] | self [n], other [n] -> []");
  rules.add("addmm", "mat1 [m k], mat2 [k n], self ~[m n] -> [m n]");
  rules.add("addmv", "mat [m k], vec [k], self ~[m] -> [m]");
  rules.add("addbmm", "batch1 [b m k], batch2 [b k n], self ~[m n] -> [m n]");
  rules.add("baddbmm", "batch1 [b m k], batch2 [b k n], self ~[b m n] -> [b m n]");
  rules.add("linear",
            "input [*b k], weight [o k], bias ~[o] -> [*b o] | "
            "input [*b k], weight [k], bias [] -> [*b]");
  rules.add("matmul", matmul);
  rules.add("tv::matmul_integer",
            pattern("a [*b m k], b [*b n k] -> [*b m n] | a [*b m k], b [n k] -> [*b m n] | "
                    "a [m k], b [*b n k] -> [*b m n]") &
                zero_points);
  rules.add("_grouped_mm",
            "self [m k], mat2 [g k n], offs [g] -> [m n] | self [g m k], mat2 [g k n] -> [g m n] | "
            "self [m k], mat2 [k n], offs [g] -> [g m n] | self [g m k], mat2 [k n], offs [g] -> "
            "[m n]");
  rules.add("transformers::grouped_mm_fallback", "input [m k], weight [g k n], offs [g] -> [m n]");
  rules.add("_trilinear", trilinear);
  rules.add(
      "scaled_dot_product_attention torch_vulkan::scaled_dot_product_attention "
      "_scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention "
      "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention "
      "_scaled_dot_product_flash_attention_for_cpu",
      attention);
  rules.add(
      "_scaled_dot_product_cudnn_attention_backward "
      "_scaled_dot_product_efficient_attention_backward "
      "_scaled_dot_product_flash_attention_backward "
      "_scaled_dot_product_flash_attention_for_cpu_backward",
      attention_backward);
  rules.add("_cdist_forward _cdist_backward", distances);
  rules.add("_pdist_forward _pdist_backward", distances_of_pairs);

  rules.add("cholesky_inverse", "self T[*b n n] -> T[*b n n]");
  rules.add("linalg_cholesky_ex", "self T[*b n n] -> T[*b n n], [*b]");
  rules.add("linalg_inv_ex", "A T[*b n n] -> T[*b n n], [*b]");
  rules.add("linalg_lu_factor_ex", "A T[*b m n] -> T[*b m n], [*b .], [*b]");
  rules.add("linalg_lu", "A T[*b m n] -> [*], T[*b m k], T[*b k n]");
  rules.add("lu_unpack", "LU_data T[*b m n], LU_pivots [*b .] -> [*], [*], [*]");
  rules.add("_linalg_det", "A T[*b n n] -> T[*b], T[*b n n], [*b n]");
  rules.add("_linalg_slogdet", "A T[*b n n] -> T[*b], T[*b], T[*b n n], [*b n]");
  rules.add("linalg_lu_solve", lu_solve);
  rules.add("_linalg_solve_ex", solve_ex);
  rules.add("linalg_solve_triangular", [](NodeTypes& t) { solves(t, "self", "B", left_of(t)); });
  rules.add("triangular_solve", [](NodeTypes& t) { solves(t, "A", "self", true); });
  rules.add("cholesky_solve", [](NodeTypes& t) { solves(t, "input2", "self", true); });
}

}  // namespace tv

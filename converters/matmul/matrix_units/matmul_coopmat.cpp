#include "converters/matmul/matrix_units/matmul_coopmat.h"

#include <algorithm>

namespace tv {

namespace {

/// The batch strides of a side; none of them moves: the batch shares the matrix.
struct Side {
  const Shape& strides;
  bool batched;
};

Side side_of(const Product& p, bool side_a) {
  const Shape& strides = side_a ? p.batch.a : p.batch.b;
  return {strides,
          !std::all_of(strides.begin(), strides.end(), [](const Expr& s) { return s == Expr(0); })};
}

/// Powers of two by which a number may lie below the largest of its group and keep enough bits
/// (matmul_scale.comp).
int64_t spread_of(const SplitPrecision& precision) { return precision.pieces == 1 ? 24 : 18; }

}  // namespace

MatrixProblem matrix_problem(const NodeContext& c, Builder& b, const Product& p,
                             const SplitPrecision& precision) {
  MatrixProblem q{.c = c,
                  .b = b,
                  .p = p,
                  .precision = precision,
                  .a = c.node.input("a"),
                  .w = c.node.input("b"),
                  .y = c.node.outputs[0]};
  q.m = typical(c.graph, p.m);
  q.n = typical(c.graph, p.n);
  q.k = typical(c.graph, p.k);
  q.z = typical(c.graph, p.batch.count());
  q.a_rows = is_aligned(c, q.a) && loads_runs(kChunk, p.k, p.a_k, p.a_m, p.batch.a);
  q.a_cols = is_aligned(c, q.a) && loads_runs(kChunk, p.m, p.a_m, p.a_k, p.batch.a);
  q.b_rows = is_aligned(c, q.w) && loads_runs(kChunk, p.n, p.b_n, p.b_k, p.batch.b);
  q.b_cols = is_aligned(c, q.w) && loads_runs(kChunk, p.k, p.b_k, p.b_n, p.batch.b);
  return q;
}

MadeSide add_scales(const MatrixProblem& q, bool side_a, std::vector<Step>& steps) {
  const Product& p = q.p;
  const Side side = side_of(p, side_a);
  const Expr spans = side_a ? p.m : p.n, groups = ceil_div(spans, kFragment);
  const Expr matrices = side.batched ? p.batch.count() : Expr(1);
  const Expr &s_span = side_a ? p.a_m : p.b_n, &s_k = side_a ? p.a_k : p.b_k;
  MadeSide made{q.b.scratch(side_a ? "scale_a" : "scale_b", DType::kF32, {matrices, groups * 2}),
                side.batched ? groups * 2 : Expr(0)};
  Step step{.kernel = "matmul_scale",
            .defines = {{"SPANS_NEXT", flag(s_span == Expr(1))},
                        {"SPREAD", text(spread_of(q.precision))}},
            .operands = {src("x", side_a ? q.a : q.w), dst("y", made.value)},
            .params = {param("span_count", spans), param("k_count", p.k), param("groups", groups),
                       param("s_span", s_span), param("s_k", s_k)},
            .grid = {{groups, 1, matrices}},
            .local_size = {256, 1, 1}};
  add_batch(step, p.batch, side.strides, "s");
  steps.push_back(std::move(step));
  return made;
}

MadeSide add_packing(const MatrixProblem& q, bool side_a, const Packing& packing,
                     std::vector<Step>& steps) {
  const Product& p = q.p;
  const Side side = side_of(p, side_a);
  const Expr spans = round_up(side_a ? p.m : p.n, packing.multiple);
  const Expr fragments = ceil_div(spans, kFragment) * packing.k_steps;
  const int64_t uvec4s = fragment_uvec4s(q.precision);
  const Expr matrices = side.batched ? p.batch.count() : Expr(1);
  MadeSide made{q.b.scratch(side_a ? "packed_a" : "packed", DType::kI32,
                            {(matrices * fragments + packing.slack) * (uvec4s * kUvec4Words)}),
                side.batched ? fragments * uvec4s : Expr(0)};
  Step step = pack_step("matmul_pack", q.precision, fragments);
  step.defines.emplace_back("SIDE_A", flag(side_a));
  step.defines.emplace_back("PAIRED", flag(packing.paired));
  step.defines.emplace_back("SCALED", flag(q.is_scaled()));
  const bool quantised = q.quantised != nullptr && !side_a;
  step.defines.emplace_back("QUANTISED", flag(quantised));
  if (quantised) {
    add_quantised_weight(q.c, *q.quantised, step);
    for (Operand& operand : step.operands) operand.vec4 |= operand.name == "q";
    // Not of use to it, but so it is no part of the weight program, which would keep the floats.
    step.operands.push_back(src("a", q.a));
  } else {
    step.operands.push_back(src("x", side_a ? q.a : q.w));
  }
  step.operands.push_back(dst("y", made.value));
  for (const auto& [name, value] : {std::pair("k_steps", packing.k_steps),
                                    {"span_count", side_a ? p.m : p.n},
                                    {"k_count", p.k},
                                    {"s_span", side_a ? p.a_m : p.b_n},
                                    {"s_k", side_a ? p.a_k : p.b_k},
                                    {"y_z", made.z_step}}) {
    step.params.push_back(param(name, value));
  }
  step.grid = {{ceil_div(fragments, kPackedTogether), 1, matrices}};
  if (packing.scales != nullptr) {
    step.operands.push_back(src("scale", packing.scales->value));
    step.params.push_back(param("scale_z", packing.scales->z_step));
  }
  add_batch(step, p.batch, side.strides, "s");
  steps.push_back(std::move(step));
  return made;
}

}  // namespace tv

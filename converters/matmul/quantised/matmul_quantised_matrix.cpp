// tv::matmul_quantised on matrix units: tiles of the packed matrix become floats on their way into
// shared memory (matmul_quantised_load.glsl); the rest is the products' of floats, family "shared".
//
// With 16-bit activations a weight is rounded once to their dtype, as the model writes it, unless a
// row has one scale: then the integers themselves are multiplied, which such floats hold exactly,
// and sums scaled. A workspace holds weights that are rounded so, whatever their scales.

#include <algorithm>

#include "converters/matmul/matrix_units/matmul_coopmat.h"
#include "csrc/settings.h"

namespace tv {
namespace {

constexpr int64_t kRun = 16;  // elements of a row that an invocation loads at once
constexpr int64_t kShortestSplit = 64;
constexpr int64_t kFewestOfWorkspace = 64;  // rows
constexpr size_t kMostTactics = 12;

/// Runs that an invocation loads of a tile of k.
int64_t runs_of(const ProductTile& t) { return t.tile.bn * t.bk / (kRun * t.tile.threads()); }

/// Whether integers are multiplied, and the sums scaled: rows have one scale, and what the units
/// multiply holds every element less its zero point. bfloat16 does up to 256.
bool scales_sums(const MatrixProblem& q) {
  const QuantisedProduct& p = *q.quantised;
  if (p.group != p.k || !zero_fits(q.c, p)) return false;
  if (p.q.format == "float8_e8m0fnu") return false;  // beyond float16
  if (q.precision.is_split() || q.precision.input == DType::kF16 || p.q.bits == 4) return true;
  return p.q.zero_point == kNoValue ||
         q.c.graph.value(p.q.zero_point).dtype == q.c.graph.value(p.q.input).dtype;
}

/// Of a weight that is rounded to 16 bits.
double error_of(const MatrixProblem& q, const ProductTile& t) {
  if (q.precision.is_split() || (scales_sums(q) && t.ring == 0)) return q.precision.error;
  return q.precision.input == DType::kF16 ? 0x1p-11 : 0x1p-8;
}

MatrixProblem problem_of(const NodeContext& c, Builder& b, const QuantisedProduct& p,
                         const Product& product, const SplitPrecision& precision) {
  MatrixProblem q{.c = c,
                  .b = b,
                  .p = product,
                  .precision = precision,
                  .a = c.node.input("a"),
                  .w = p.q.input,
                  .y = c.node.outputs[0],
                  .m = typical(c.graph, p.m),
                  .n = p.n,
                  .k = p.k,
                  .z = 1};
  const bool aligned = is_aligned(c, q.a);
  q.a_rows = aligned && loads_runs(kChunk, product.k, p.a_k, p.a_m, {});
  q.a_cols = aligned && loads_runs(kChunk, p.m, p.a_m, p.a_k, {});
  q.b_rows = false;
  q.b_cols = true;
  q.quantised = &p;
  return q;
}

/// Appends the launch that brings the matrix into runs.
ValueId add_runs(const MatrixProblem& q, std::vector<Step>& steps) {
  const QuantisedProduct& p = *q.quantised;
  const int64_t count = div_up(p.n, kFragment) * kFragment * (p.k / kRun), words = p.q.bits / 2;
  const ValueId runs =
      q.b.scratch("runs", q.c.graph.value(p.q.input).dtype, {Expr(count * words * 4)});
  Operand from = src("q", p.q.input), to = dst("y", runs);
  from.vec4 = to.vec4 = true;
  steps.push_back({.kernel = "matmul_quantised_pack",
                   .defines = {{"RUN", text(words)}},
                   .operands = {from, to},
                   .params = {param("runs", Expr(count)), param("steps", Expr(p.k / kRun)),
                              param("n_count", Expr(p.n))},
                   .grid = one_each(Expr(count), 64)});
  return runs;
}

void emit(const MatrixProblem& problem, const ProductTile& t, Tactic& tactic) {
  if (t.ring > 0) return emit_shared(problem, t, tactic);
  QuantisedProduct in_runs = *problem.quantised;
  in_runs.runs = add_runs(problem, tactic.steps);
  MatrixProblem q = problem;
  q.quantised = &in_runs;
  emit_shared(q, t, tactic);
  const bool half = q.precision.input == DType::kF16;
  auto& defines = std::ranges::find(tactic.steps, "matmul_matrix", &Step::kernel)->defines;
  defines.insert(defines.end(), {{"SCALED_SUMS", flag(scales_sums(q))},
                                 {"RUNS", text(runs_of(t))},
                                 {"TO_16X4", half ? "tv_to_f16x4" : "tv_to_bf16x4"}});
}

std::string refusal(const MatrixProblem& q, const ProductTile& t) {
  const QuantisedProduct& p = *q.quantised;
  if (p.k % kRun != 0 || p.group % kRun != 0) {
    return "rows or groups are no multiple of 16 steps of k";
  }
  return tile_refusal(q, t);
}

}  // namespace

std::vector<Tactic> quantised_matrix_tactics(const NodeContext& c, Builder& b,
                                             const QuantisedProduct& p) {
  if (c.device.is_cpu() || c.device.coop_matrices.empty()) return {};
  const Product product{
      .m = p.m, .n = p.n, .k = p.k, .a_m = p.a_m, .a_k = p.a_k, .b_k = 1, .b_n = p.k, .batch = {}};
  std::vector<MatrixProblem> problems;
  for (const SplitPrecision& way :
       split_precisions(c.dtype("a"), float_ways(!c.settings.disable_tf32))) {
    if (way.scale != SplitPrecision::kUnscaled || (way.is_split() && p.k < kShortestSplit)) {
      continue;
    }
    problems.push_back(problem_of(c, b, p, product, way));
  }
  std::vector<MatrixCandidate<MatrixProblem, ProductTile>> candidates;
  for (const MatrixProblem& q : problems) {
    for (const ProductTile& t : quantised_tiles(q.precision)) {
      candidates.push_back({&q, t, expected_ns(q, t)});
      const ProductTile split = with_split_k(q, t);
      if (split.split > 1) candidates.push_back({&q, split, expected_ns(q, split)});
    }
  }
  for (const MatrixProblem& q : problems) {
    if (q.precision.is_split() || q.m < kFewestOfWorkspace) continue;
    for (const ProductTile& t : product_tiles(q.precision)) {
      const bool shared = t.family == ProductTile::kShared && t.ring > 0;
      if (shared) candidates.push_back({&q, t, expected_ns(q, t)});
    }
  }
  return ranked_tactics(
      candidates, [](const MatrixProblem&) { return kMostTactics; },
      [](const MatrixProblem& q, const ProductTile& t) {
        return Tactic{.name = tactic_name(q, t), .refusal = refusal(q, t), .error = error_of(q, t)};
      },
      [](const MatrixProblem& q, const ProductTile& t, Tactic& tactic) { emit(q, t, tactic); });
}

}  // namespace tv

// tv::matmul_integer on matrix units that multiply signed bytes: the products' of floats, family
// "shared", whose rows of 16 bytes hold twice as many steps of k.

#include <algorithm>

#include "converters/matmul/integer/matmul_integer.h"
#include "converters/matmul/matrix_units/matmul_coopmat.h"
#include "csrc/codegen/cooperative_matrix.h"

namespace tv {
namespace {

constexpr size_t kMostTactics = 12;
constexpr int64_t kUsualSteps = 32;  // of k of a matrix, where the device has none

/// The product in pairs of bytes, its rows padded to whole uvec4s.
Product in_pairs(const IntegerProduct& p) {
  const Expr pairs = ceil_div(p.k, kUvec4Bytes) * (kUvec4Bytes / 2);
  Product product{
      .m = p.m, .n = p.n, .k = pairs, .a_m = pairs, .a_k = 1, .b_k = 1, .b_n = pairs, .batch = {}};
  if (p.batched) product.batch = {{p.batch}, {p.m * pairs}, {p.n * pairs}};
  return product;
}

MatrixProblem problem_of(const NodeContext& c, Builder& b, const IntegerProduct& p,
                         const Product& product) {
  const int64_t steps = steps_of_bytes(c.device);
  return {.c = c,
          .b = b,
          .p = product,
          .precision = {.input = DType::kI8},
          .a = p.a.value,
          .w = p.b.value,
          .y = c.node.outputs[0],
          .m = typical(c.graph, p.m),
          .n = typical(c.graph, p.n),
          .k = typical(c.graph, product.k),
          .z = typical(c.graph, p.batch),
          .a_rows = true,
          .a_cols = false,
          .b_rows = false,
          .b_cols = true,
          .bytes = steps > 0 ? steps : kUsualSteps,
          // What is constant is brought into the order of tiles once.
          .in_runs = !p.batched && b.is_constant(p.b.value)};
}

void emit(const MatrixProblem& q, const IntegerProduct& p, const ProductTile& t, Tactic& tactic) {
  Step step = shared_step(q, t);
  const bool finds_b_sums = !q.b.is_constant(p.b.value);
  step.defines.emplace_back("B_SUMMED", flag(!finds_b_sums));
  add_integer_operands(
      q.c, q.b, p,
      {.run = kUvec4Bytes, .finds_b_sums = finds_b_sums, .b_in_runs = q.in_runs, .asks_b = true},
      tactic, step);
  step.params.insert(step.params.end(),
                     {param("terms", p.k), fixed("a_ld", q.p.a_m), fixed("b_ld", q.p.b_n)});
  add_batch(step, q.p.batch, q.p.batch.a, "az");
  add_batch(step, q.p.batch, q.p.batch.b, "bz");
  tactic.steps.push_back(std::move(step));
}

}  // namespace

std::vector<Tactic> integer_matrix_tactics(const NodeContext& c, Builder& b,
                                           const IntegerProduct& p) {
  if (c.device.is_cpu() || c.device.coop_matrices.empty()) return {};
  const Product product = in_pairs(p);
  const MatrixProblem problem = problem_of(c, b, p, product);
  std::vector<MatrixCandidate<MatrixProblem, ProductTile>> candidates;
  for (const ProductTile& t : product_tiles(problem.precision)) {
    candidates.push_back({&problem, t, expected_ns(problem, t)});
  }
  return ranked_tactics(
      candidates, [](const MatrixProblem&) { return kMostTactics; },
      [](const MatrixProblem& q, const ProductTile& t) {
        Tactic tactic{.name = tactic_name(q, t), .refusal = tile_refusal(q, t)};
        if (!q.c.device.int8) tactic.refusal = "the device does not compute with 8-bit integers";
        return tactic;
      },
      [&](const MatrixProblem& q, const ProductTile& t, Tactic& tactic) { emit(q, p, t, tactic); });
}

}  // namespace tv

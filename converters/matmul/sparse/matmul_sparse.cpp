// Products with weights that are 2:4 sparse, made by multiply_sparse:
//   values, index = tv::pack_two_four(b): a matrix [n, k] of which two at most of each four
//     neighbours in a row are not zero, as the values [n, k / 2] that are kept and, in uint8
//     [n, k / 8], where they belong (sparse_weight.glsl). k is a multiple of 8. A matrix that has
//     more is refused when it is packed.
//   y = tv::matmul_sparse(a, values, index): a[m, k] · b[n, k]ᵀ.

#include <algorithm>
#include <iterator>

#include "converters/matmul/few_rows.h"
#include "converters/matmul/matrix_units.h"
#include "converters/matmul/packed_tiles.h"

namespace tv {
namespace {

struct SparseProduct {
  Expr m;
  int64_t n = 0, k = 0;
  Expr a_m, a_k;  ///< strides of a
};

SparseProduct product_of_node(const NodeContext& c, const Builder& b) {
  const Shape a_strides = b.strides_of(c.node.input("a"));
  return {.m = c.shape("a")[0],
          .n = c.shape("values")[0].constant().value(),
          .k = c.shape("a")[1].constant().value(),
          .a_m = a_strides[0],
          .a_k = a_strides[1]};
}

void add_problem(const NodeContext& c, const SparseProduct& p, Step& step) {
  step.operands = {src("a", c.node.input("a")), src("values", c.node.input("values")),
                   src("index", c.node.input("index")), dst("y", c.node.outputs[0])};
  step.params.insert(step.params.end(),
                     {param("m_count", p.m), param("n_count", p.n), fixed("k_count", p.k),
                      param("a_m", p.a_m), param("a_k", p.a_k)});
}

/// Steps of k that an invocation of a product of few rows takes at once.
constexpr int64_t kRun = 32;

const char* halves_of(DType dtype) {
  return dtype == DType::kF16 ? "1" : dtype == DType::kBF16 ? "2" : "0";
}

Tactic rows_tactic(const NodeContext& c, const SparseProduct& p, const RowsTile& t) {
  Tactic tactic{.name = "matmul_sparse_rows_" + t.name(),
                .refusal = rows_refusal(c.device, t, typical(c.graph, p.m))};
  if (p.k % kRun != 0) tactic.refusal = "rows are no multiple of 32 steps of k";
  if (!tactic.refusal.empty()) return tactic;
  Step step = rows_step("matmul_sparse_rows", c.device, t, p.m, p.n);
  add_problem(c, p, step);
  const bool fours =
      p.a_k == Expr(1) && mod(p.a_m, 4) == Expr(0) && !c.graph.value(c.node.input("a")).view;
  step.operands.front().vec4 = fours;
  for (Operand& operand : step.operands) {
    operand.vec4 |= operand.name == "values" || operand.name == "index";
  }
  step.defines.insert(step.defines.end(),
                      {{"HALVES", halves_of(c.dtype("values"))}, {"A4", flag(fours)}});
  const int64_t run = kRun * c.device.subgroup_size * t.wk;
  step.iterations = Expr(div_up(p.k, run) + t.wk + t.rows);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

std::vector<Tactic> rows_tactics(const NodeContext& c, const SparseProduct& p) {
  const FewRows problem{.m = typical(c.graph, p.m),
                        .n = p.n,
                        .steps = div_up(p.k, kRun * std::max(c.device.subgroup_size, 1U)),
                        .heights = {8, 4, 2, 1}};
  std::vector<Tactic> tactics;
  for (const RowsTile& tile : rows_tiles(c.device, problem)) {
    tactics.push_back(rows_tactic(c, p, tile));
  }
  return tactics;
}

PackedProblem packed(const SparseProduct& p, const char* kernel) {
  return {.kernel = kernel, .m = p.m, .n = p.n, .a_by_rows = p.a_k == Expr(1)};
}

Tactic tiled_tactic(const NodeContext& c, const SparseProduct& p, int64_t rows, int64_t cols) {
  Tactic tactic = packed_tiles(c.device, packed(p, "matmul_sparse_tiled"), rows, cols);
  for (Step& step : tactic.steps) add_problem(c, p, step);
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const SparseProduct& p) {
  Tactic tactic = packed_reference(packed(p, "matmul_sparse_reference"), p.k);
  add_problem(c, p, tactic.steps.front());
  return tactic;
}

void multiply(const NodeContext& c, Builder& b) {
  const SparseProduct p = product_of_node(c, b);
  const int64_t m = typical(c.graph, p.m);
  std::vector<Tactic> tiles = {tiled_tactic(c, p, 16, 64), tiled_tactic(c, p, 64, 64)};
  if (m > 32) std::ranges::reverse(tiles);
  std::vector<Tactic> tactics = in_order(rows_tactics(c, p), std::move(tiles), m);
  tactics.push_back(reference_tactic(c, p));
  b.emit(std::move(tactics));
}

std::string product_unsupported(const NodeContext& c) {
  if (!is_float(c.dtype("a")) || c.dtype("a") != c.dtype("values")) {
    return "[" + c.node.op + "] operands must be floats of one dtype";
  }
  return loops_too_long(c, c.shape("a")[1] + 1);
}

void pack(const NodeContext& c, Builder& b) {
  const Shape strides = b.strides_of(c.node.input("b"));
  const int64_t n = c.shape("b")[0].constant().value(), k = c.shape("b")[1].constant().value();
  emit_flat(b,
            {.kernel = "matmul_sparse_pack",
             .operands = {src("b", c.node.input("b")), dst("values", c.node.outputs[0]),
                          dst("index", c.node.outputs[1])},
             .params = {param("total", n * (k / 8)), param("k_count", k), param("b_n", strides[0]),
                        param("b_k", strides[1])}},
            Expr(n * (k / 8)));
}

Graph product_example(DType dtype, int64_t m, int64_t n, int64_t k) {
  return ExampleGraph("tv::matmul_sparse")
      .input("a", dtype, {m, k})
      .input("values", dtype, {n, k / 2})
      .input("index", DType::kU8, {n, k / 8})
      .output(dtype, {m, n})
      .graph();
}

std::vector<Graph> product_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    graphs.push_back(product_example(dtype, 1, 53, 384));
    graphs.push_back(product_example(dtype, 2, 40, 1056));
    graphs.push_back(product_example(dtype, 5, 29, 104));
    graphs.push_back(product_example(dtype, 7, 37, 1056));
    graphs.push_back(product_example(dtype, 70, 67, 96));
  }
  return graphs;
}

std::vector<Graph> pack_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    graphs.push_back(ExampleGraph("tv::pack_two_four")
                         .input("b", dtype, {5, 24})
                         .output(dtype, {5, 12})
                         .output(DType::kU8, {5, 3})
                         .graph());
  }
  return graphs;
}

const RegisterConverter matmul_sparse{{.op = "tv::matmul_sparse",
                                       .unsupported = product_unsupported,
                                       .convert = multiply,
                                       .reads_views = {"a"},
                                       .epilogue = true,
                                       .examples = product_examples}};
const RegisterConverter pack_two_four{
    {.op = "tv::pack_two_four", .convert = pack, .reads_views = {"b"}, .examples = pack_examples}};

}  // namespace
}  // namespace tv

// tv::matmul_quantised: products with quantised matrices.

#include "converters/matmul/matmul_quantised.h"

#include <algorithm>

#include "converters/matmul/matmul_simd.h"

namespace tv {
namespace {

QuantisedProduct product_of_node(const NodeContext& c, const Builder& b) {
  const Shape a_strides = b.strides_of(c.node.input("a"));
  QuantisedProduct p{.m = c.shape("a")[0],
                     .n = c.output().shape[1].constant().value(),
                     .k = c.shape("a")[1].constant().value(),
                     .a_m = a_strides[0],
                     .a_k = a_strides[1],
                     .q = quantised_of(c.node)};
  set_groups(c, p);
  return p;
}

void add_problem(const NodeContext& c, const QuantisedProduct& p, Step& step) {
  step.operands = {src("a", c.node.input("a"))};
  add_quantised_weight(p, step);
  step.operands.push_back(dst("y", c.node.outputs[0]));
  step.params.insert(step.params.end(),
                     {param("m_count", p.m), param("n_count", p.n), param("k_count", p.k),
                      param("a_m", p.a_m), param("a_k", p.a_k)});
}

/// Few rows: a subgroup for some columns, `rows` rows of a at once.
Tactic rows_tactic(const NodeContext& c, const QuantisedProduct& p, int64_t rows) {
  constexpr int64_t kSubgroups = 4, kColumns = 2, kSteps = 16;
  Tactic tactic{.name = "matmul_quantised_rows_" + text(rows)};
  const int64_t lanes = c.device.subgroup_size;
  if (c.device.is_cpu()) {
    tactic.refusal = "another kernel is made for CPUs";
  } else if (!c.device.subgroup_size_control || lanes < 8) {
    tactic.refusal = "the device does not promise the size of subgroups";
  } else if (p.k % kSteps != 0 || p.group % kSteps != 0) {
    tactic.refusal = "rows or groups are no multiple of 16 steps of k";
  } else if (typical(c.graph, p.m) > 4 * rows) {
    tactic.refusal = "many rows";
  }
  if (!tactic.refusal.empty()) return tactic;
  Step step{.kernel = "matmul_quantised_rows",
            .grid = {{ceil_div(Expr(p.n), kColumns * kSubgroups), ceil_div(p.m, rows), 1}},
            .local_size = {static_cast<uint32_t>(kSubgroups * lanes), 1, 1},
            .subgroup_size = static_cast<uint32_t>(lanes)};
  add_problem(c, p, step);
  const bool fours =
      p.a_k == Expr(1) && mod(p.a_m, 4) == Expr(0) && !c.graph.value(c.node.input("a")).view;
  step.operands.front().vec4 = fours;
  for (Operand& operand : step.operands) operand.vec4 |= operand.name == "q";
  step.defines.insert(step.defines.end(),
                      {{"ROWS", text(rows)},
                       {"COLS", text(kColumns)},
                       {"SUBGROUPS", text(kSubgroups)},
                       {"LANES_K", text(lanes)},
                       {"DENSE", "0"},
                       {"SIGNED", flag(c.graph.value(p.q.input).dtype == DType::kI8)},
                       {"A4", flag(fours)}});
  step.iterations = Expr(p.k / (kSteps * lanes) + 1);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

Tactic tiled_tactic(const NodeContext& c, const QuantisedProduct& p, int64_t rows, int64_t cols) {
  constexpr int64_t kSteps = 16, kPerThread = 4;
  const int64_t per_row = std::min<int64_t>(kPerThread, rows / 8);
  const int64_t threads = rows / per_row * (cols / kPerThread);
  Tactic tactic{.name = "matmul_quantised_tiled_" + text(rows) + "x" + text(cols)};
  if (c.device.is_cpu()) tactic.refusal = "workgroups that share memory are slow on a CPU";
  if (threads > c.device.max_workgroup_invocations) {
    tactic.refusal = "workgroups of " + text(threads) + " invocations are not possible";
  }
  if (!tactic.refusal.empty()) return tactic;
  Step step{.kernel = "matmul_quantised_tiled",
            .grid = {{ceil_div(Expr(p.n), cols), ceil_div(p.m, rows), 1}},
            .local_size = {static_cast<uint32_t>(threads), 1, 1}};
  add_problem(c, p, step);
  step.defines.insert(step.defines.end(), {{"BM", text(rows)},
                                           {"BN", text(cols)},
                                           {"BK", text(kSteps)},
                                           {"BLOCK", "64u"},
                                           {"RM", text(per_row)},
                                           {"RN", text(kPerThread)},
                                           {"A_BY_ROWS", flag(p.a_k == Expr(1))}});
  tactic.steps.push_back(std::move(step));
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const QuantisedProduct& p) {
  Step step{.kernel = "matmul_quantised_reference",
            .grid = one_each(p.m * p.n, 64),
            .local_size = {64, 1, 1},
            .iterations = Expr(p.k + p.k / 32 + 1)};
  add_problem(c, p, step);
  step.params.push_back(param("total", p.m * p.n));
  return {.name = "matmul_quantised_reference", .steps = {std::move(step)}};
}

void convert(const NodeContext& c, Builder& b) {
  const QuantisedProduct p = product_of_node(c, b);
  const int64_t m = typical(c.graph, p.m);
  std::vector<Tactic> tactics;
  // To unpack an element takes as long as to multiply it by so many rows.
  constexpr int64_t kUnpack = 4;
  std::vector<int64_t> simd = {12, 8, 4, 2, 1}, skinny = {8, 4, 2, 1};
  for (std::vector<int64_t>* rows : {&simd, &skinny}) {
    std::ranges::stable_sort(*rows, {}, [&](int64_t r) { return (m + r - 1) / r * (kUnpack + r); });
  }
  for (const int64_t rows : simd) tactics.push_back(quantised_simd_tactic(c, b, p, rows));
  for (const int64_t rows : skinny) tactics.push_back(rows_tactic(c, p, rows));
  tactics.push_back(tiled_tactic(c, p, m <= 32 ? 16 : 64, 64));
  tactics.push_back(tiled_tactic(c, p, m <= 32 ? 64 : 16, 64));
  tactics.push_back(reference_tactic(c, p));
  b.emit(std::move(tactics));
}

std::string unsupported(const NodeContext& c) {
  if (!is_float(c.dtype("a"))) return "[" + c.node.op + "] the operand a is not of floats";
  return loops_too_long(c, c.shape("a")[1] + 1);
}

struct Example {
  int64_t m, n, k, groups, bits = 8;
  DType input = DType::kI8, scale = DType::kF32, zero = DType::kOther;
  int64_t scale_rows = 0;  ///< 0: n
};

Graph example(const Example& e, DType a) {
  ExampleGraph graph("tv::matmul_quantised");
  const Shape blocks = {e.scale_rows > 0 ? e.scale_rows : e.n, e.groups};
  graph.input("a", a, {e.m, e.k}).input("input", e.input, {e.n, e.k * e.bits / 8});
  e.scale == DType::kOther ? graph.none("scale") : graph.input("scale", e.scale, blocks);
  e.zero == DType::kOther ? graph.none("zero_point") : graph.input("zero_point", e.zero, blocks);
  return graph.attr("bits", integer(e.bits)).output(a, {e.m, e.n}).graph();
}

std::vector<Graph> examples() {
  using enum DType;
  const std::vector<Example> cases = {
      {1, 53, 384, 1},
      {7, 37, 192, 6, 8, kU8, kF16, kU8},
      {37, 96, 130, 1, 8, kI8, kF32, kI64},
      {3, 53, 96, 3, 4, kU8, kF32, kU8},
      {2, 40, 320, 5, 4, kU8, kBF16},
      {70, 40, 64, 1, 8, kI8, kF32, kOther, 1},
      {5, 11, 60, 4, 8, kI8, kOther, kI8},
  };
  std::vector<Graph> graphs;
  for (const Example& e : cases) graphs.push_back(example(e, kF32));
  graphs.push_back(example(cases[1], kF16));
  graphs.push_back(example(cases[3], kBF16));
  return graphs;
}

const RegisterConverter matmul_quantised{{.op = "tv::matmul_quantised",
                                          .unsupported = unsupported,
                                          .convert = convert,
                                          .reads_views = {"a"},
                                          .epilogue = true,
                                          .float32_args = {"scale"},
                                          .examples = examples}};

}  // namespace

void set_groups(const NodeContext& c, QuantisedProduct& p) {
  p.group = p.k;
  const ValueId blocks = p.q.scale != kNoValue ? p.q.scale : p.q.zero_point;
  if (blocks == kNoValue) return;
  const Shape& shape = c.graph.value(blocks).shape;
  p.group = p.k / shape[1].constant().value();
  p.by_rows = shape[0].constant().value() > 1;
}

void add_quantised_weight(const QuantisedProduct& p, Step& step) {
  step.operands.push_back(src("q", p.q.input));
  if (p.q.scale != kNoValue) step.operands.push_back(src("scale", p.q.scale));
  if (p.q.zero_point != kNoValue) step.operands.push_back(src("zero", p.q.zero_point));
  step.defines.insert(step.defines.end(), {{"BITS", text(p.q.bits)},
                                           {"GROUP", "group_steps"},
                                           {"ROW_BYTES", "row_bytes"},
                                           {"SCALE_ROW", "scale_row"},
                                           {"HAS_SCALE", flag(p.q.scale != kNoValue)},
                                           {"HAS_ZERO", flag(p.q.zero_point != kNoValue)}});
  step.params.insert(step.params.end(),
                     {param("group_steps", p.group), param("row_bytes", p.row_bytes()),
                      param("scale_row", p.scale_row())});
}

}  // namespace tv

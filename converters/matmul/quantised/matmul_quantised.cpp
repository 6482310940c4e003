// tv::matmul_quantised: products with quantised matrices.

#include "converters/matmul/matmul_quantised.h"

#include <algorithm>
#include <iterator>

#include "converters/matmul/few_rows.h"
#include "converters/matmul/matrix_units/matmul_coopmat.h"
#include "converters/matmul/packed_tiles.h"
#include "converters/matmul/simd/matmul_simd.h"

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
  add_quantised_weight(c, p, step);
  step.operands.push_back(dst("y", c.node.outputs[0]));
  step.params.insert(step.params.end(),
                     {param("m_count", p.m), param("n_count", p.n), fixed("k_count", p.k),
                      param("a_m", p.a_m), param("a_k", p.a_k)});
}

/// Words that an invocation loads at once, all of one group; 0: groups or rows hold no whole ones.
int64_t words_at_once(const QuantisedProduct& p) {
  constexpr int64_t kFewest = 16;  // elements
  for (const int64_t words : {4, 2}) {
    const int64_t run = words * 32 / p.q.bits;
    if (run >= kFewest && p.k % run == 0 && p.group % run == 0) return words;
  }
  return 0;
}

Tactic rows_tactic(const NodeContext& c, const QuantisedProduct& p, const RowsTile& t) {
  Tactic tactic{.name = "matmul_quantised_rows_" + t.name(),
                .refusal = rows_refusal(c.device, t, typical(c.graph, p.m))};
  const int64_t words = words_at_once(p);
  if (words == 0) tactic.refusal = "rows or groups are no multiple of 16 steps of k";
  if (!tactic.refusal.empty()) return tactic;
  Step step = rows_step("matmul_quantised_rows", c.device, t, p.m, p.n);
  add_problem(c, p, step);
  const bool fours =
      p.a_k == Expr(1) && mod(p.a_m, 4) == Expr(0) && !c.graph.value(c.node.input("a")).view;
  step.operands.front().vec4 = fours;
  for (Operand& operand : step.operands) operand.vec4 |= operand.name == "q";
  step.defines.insert(step.defines.end(),
                      {{"WORDS", text(words)}, {"DENSE", "0"}, {"A4", flag(fours)}});
  const int64_t run = words * 32 / p.q.bits * c.device.subgroup_size * t.wk;
  step.iterations = Expr(div_up(p.k, run) + t.wk + t.rows);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

/// Few rows: the packed words are read once for all rows of a tile.
std::vector<Tactic> rows_tactics(const NodeContext& c, const QuantisedProduct& p) {
  const int64_t run = std::max<int64_t>(words_at_once(p), 1) * 32 / p.q.bits;
  const FewRows problem{.m = typical(c.graph, p.m),
                        .n = p.n,
                        .steps = div_up(p.k, run * std::max(c.device.subgroup_size, 1U)),
                        .heights = {8, 4, 2, 1}};
  std::vector<Tactic> tactics;
  for (const RowsTile& tile : rows_tiles(c.device, problem)) {
    tactics.push_back(rows_tactic(c, p, tile));
  }
  return tactics;
}

PackedProblem packed(const QuantisedProduct& p, const char* kernel) {
  return {.kernel = kernel, .m = p.m, .n = p.n, .a_by_rows = p.a_k == Expr(1)};
}

Tactic tiled_tactic(const NodeContext& c, const QuantisedProduct& p, int64_t rows, int64_t cols) {
  Tactic tactic = packed_tiles(c.device, packed(p, "matmul_quantised_tiled"), rows, cols);
  for (Step& step : tactic.steps) add_problem(c, p, step);
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const QuantisedProduct& p) {
  Tactic tactic = packed_reference(packed(p, "matmul_quantised_reference"), p.k);
  add_problem(c, p, tactic.steps.front());
  return tactic;
}

void convert(const NodeContext& c, Builder& b) {
  const QuantisedProduct p = product_of_node(c, b);
  const int64_t m = typical(c.graph, p.m);
  std::vector<Tactic> tactics;
  constexpr int64_t kUnpack = 4;  // rows whose products take as long as to unpack an element
  std::vector<int64_t> simd = {12, 8, 4, 2, 1};
  std::ranges::stable_sort(simd, {}, [&](int64_t r) { return div_up(m, r) * (kUnpack + r); });
  for (const int64_t rows : simd) tactics.push_back(quantised_simd_tactic(c, b, p, rows));
  const bool many = m > 32;
  std::vector<Tactic> tiles = quantised_matrix_tactics(c, b, p);
  if (many) tiles.push_back(tiled_tactic(c, p, 64, 64));
  std::ranges::move(in_order(rows_tactics(c, p), std::move(tiles), m), std::back_inserter(tactics));
  tactics.push_back(tiled_tactic(c, p, 16, 64));
  if (!many) tactics.push_back(tiled_tactic(c, p, 64, 64));
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
  std::string format = {}, scale_format = {};
};

Graph example(const Example& e, DType a) {
  ExampleGraph graph("tv::matmul_quantised");
  const Shape blocks = {e.scale_rows > 0 ? e.scale_rows : e.n, e.groups};
  graph.input("a", a, {e.m, e.k}).input("input", e.input, {e.n, e.k * e.bits / 8});
  e.scale == DType::kOther ? graph.none("scale") : graph.input("scale", e.scale, blocks);
  e.zero == DType::kOther ? graph.none("zero_point") : graph.input("zero_point", e.zero, blocks);
  graph.attr("bits", integer(e.bits));
  if (!e.format.empty()) graph.attr("format", e.format);
  if (!e.scale_format.empty()) graph.attr("scale_format", e.scale_format);
  return graph.output(a, {e.m, e.n}).graph();
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
      {4, 29, 1040, 65, 4, kU8, kF16, kU8},
      {8, 67, 1056, 33, 4, kU8, kF32, kI32},
      {2, 9, 1024, 2, 8, kI8, kF32, kI64, 1},
      {3, 53, 1056, 1, 8, kU8, kF32, kOther, 0, "float8_e4m3fnuz"},
      {5, 43, 320, 10, 8, kU8, kU8, kOther, 0, "float8_e5m2fnuz", "float8_e4m3fnuz"},
      {2, 40, 320, 20, 4, kU8, kU8, kOther, 0, "float4_e2m1fn", "float8_e4m3fnuz"},
      {40, 37, 96, 3, 4, kU8, kU8, kOther, 0, "float4_e2m1fn", "float8_e5m2fnuz"},
      {5, 11, 60, 4, 4, kU8, kF16, kOther, 0, "float4_e2m1fn"},
  };
  std::vector<Graph> graphs;
  for (const Example& e : cases) graphs.push_back(example(e, kF32));
  graphs.push_back(example(cases[1], kF16));
  graphs.push_back(example(cases[3], kBF16));
  graphs.push_back(example(cases[10], kBF16));
  graphs.push_back(example(cases[14], kF16));
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

bool zero_fits(const NodeContext& c, const QuantisedProduct& p) {
  if (p.q.zero_point == kNoValue) return true;
  const DType dtype = c.graph.value(p.q.zero_point).dtype;
  return dtype == DType::kI8 || dtype == DType::kU8;
}

void add_codes(const Quantised& q, Step& step) {
  step.defines.emplace_back("CODES", flag(!q.has_integers()));
  step.defines.emplace_back("SCALE_CODES", flag(!q.scale_format.empty()));
  for (const auto& [macro, format] :
       {std::pair{"FROM_CODE(x)", &q.format}, {"FROM_SCALE_CODE(x)", &q.scale_format}}) {
    if (!format->empty()) step.defines.emplace_back(macro, "tv_from_" + *format + "(x)");
  }
}

void add_quantised_weight(const NodeContext& c, const QuantisedProduct& p, Step& step) {
  const bool in_runs = p.runs != kNoValue;
  step.operands.push_back(src("q", in_runs ? p.runs : p.q.input));
  if (p.q.scale != kNoValue) step.operands.push_back(src("scale", p.q.scale));
  if (p.q.zero_point != kNoValue) step.operands.push_back(src("zero", p.q.zero_point));
  step.defines.insert(step.defines.end(),
                      {{"BITS", text(p.q.bits)},
                       {"ROW_BYTES", "row_bytes"},
                       {"SCALE_ROW", "scale_row"},
                       {"SIGNED", flag(c.graph.value(p.q.input).dtype == DType::kI8)},
                       {"Q_IN_RUNS", flag(in_runs)},
                       {"WHOLE_ROWS", flag(p.group == p.k)},
                       {"ZERO_FITS", flag(zero_fits(c, p))},
                       {"HAS_SCALE", flag(p.q.scale != kNoValue)},
                       {"HAS_ZERO", flag(p.q.zero_point != kNoValue)}});
  step.params.insert(step.params.end(),
                     {fixed("group_steps", p.group), fixed("row_bytes", p.row_bytes()),
                      fixed("scale_row", p.scale_row())});
  add_codes(p.q, step);
}

}  // namespace tv

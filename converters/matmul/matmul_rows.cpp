// tv::matmul_rows: a product of few rows with what is before and behind it, made by fuse_products:
//   y = tv::matmul_rows(a, b, n, eps?, gated, swapped)
//   y = tv::matmul_rows(a, input, scale?, zero_point?, bits, n, eps?, gated, swapped)
// a [..., k] lies dense; b [rows, k] holds floats, or the arguments of tv::matmul_quantised name a
// packed matrix. With eps the node's prologue is computed of a's RMS norm: input 0 is the
// normalised element, the others are vectors of k elements. `gated`: the node's program is computed
// of the sums of rows i and i + n (`swapped`: in the other order), for n results.

#include <algorithm>
#include <limits>

#include "converters/matmul/matmul.h"
#include "converters/matmul/matmul_quantised.h"
#include "converters/matmul/matrix_units.h"
#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/pointwise_codegen.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

constexpr int64_t kSteps = 16;  // of k, an invocation

struct RowsProduct {
  Expr m;
  bool dense = false, norm = false, gated = false;
  ValueId b = kNoValue;     ///< the matrix [n, k] of floats, where it is dense
  QuantisedProduct weight;  ///< n, k, strides of a; the rest where it is not dense
};

RowsProduct product_of_node(const NodeContext& c) {
  RowsProduct p{.dense = c.node.has("b"), .norm = c.node.has("eps"), .gated = c.node.flag("gated")};
  p.weight.n = c.node.integer("n");
  p.weight.k = c.shape("a").back().constant().value();
  p.m = floordiv(product(c.shape("a")), p.weight.k);
  p.weight.a_m = p.weight.k;
  p.weight.a_k = 1;
  if (p.dense) p.b = c.node.input("b");
  if (p.dense) return p;
  p.weight.q = quantised_of(c.node);
  set_groups(c, p.weight);
  return p;
}

/// What a kernel calls for normalised elements: NORM_WEIGHTS(k) loads into NORM_VARIABLES what
/// NORMED(x, result) reads for four of them, NORMED_ONE(x, k, result) computes one.
void add_norm(const NodeContext& c, const RowsProduct& p, Step& step) {
  step.defines.emplace_back("NORM", flag(p.norm));
  if (!p.norm) return;
  step.params.push_back(number("eps", c.node.number("eps")));
  std::string variables, loads, ones, fours[4];
  for (size_t i = 1; i < c.node.prologue_inputs.size(); ++i) {
    const std::string name = "norm" + std::to_string(i);
    Operand operand = src(name, c.node.prologue_inputs[i]);
    operand.vec4 = true;
    step.operands.push_back(operand);
    variables += name + "_V " + name + "_; ";
    loads += name + "_ = " + name + "_vec4(k_); ";
    ones += ", " + name + "_raw(k_)";
    for (int lane = 0; lane < 4; ++lane) fours[lane] += ", " + name + "_." + "xyzw"[lane];
  }
  std::string normed;
  for (int lane = 0; lane < 4; ++lane) {
    const std::string at(1, "xyzw"[lane]);
    normed += "{ float r_; normed(x_." + at + fours[lane] + ", r_); y_." + at + " = r_; } ";
  }
  step.defines.emplace_back("NORM_FUNCTION", pointwise_line(*c.node.prologue, "normed"));
  step.defines.emplace_back("NORM_VARIABLES", variables);
  step.defines.emplace_back("NORM_WEIGHTS(k_)", loads);
  step.defines.emplace_back("NORMED(x_, y_)", normed);
  step.defines.emplace_back("NORMED_ONE(x_, k_, y_)", "normed(x_" + ones + ", y_);");
}

void add_gate(const NodeContext& c, const RowsProduct& p, Step& step) {
  step.defines.emplace_back("GATED", flag(p.gated));
  if (!p.gated) return;
  step.defines.emplace_back("GATE_FUNCTION", pointwise_line(*c.node.program, "gated"));
  step.defines.emplace_back("GATE(a_, b_, y_)",
                            c.node.flag("swapped") ? "gated(b_, a_, y_);" : "gated(a_, b_, y_);");
}

void add_problem(const NodeContext& c, const RowsProduct& p, Step& step) {
  step.operands = {src("a", c.node.input("a"))};
  step.defines.emplace_back("DENSE", flag(p.dense));
  if (p.dense) {
    step.operands.push_back(src("b", p.b));
  } else {
    add_quantised_weight(c, p.weight, step);
  }
  add_norm(c, p, step);
  add_gate(c, p, step);
  step.operands.push_back(dst("y", c.node.outputs[0]));
  step.params.insert(step.params.end(), {param("m_count", p.m), param("n_count", p.weight.n),
                                         fixed("k_count", p.weight.k)});
}

/// How a workgroup computes its part of a product.
struct FusedRows {
  int64_t rows;       ///< of a, at once
  int64_t columns;    ///< rows of the weight that a subgroup reads
  int64_t subgroups;  ///< of the workgroup
  bool kept;          ///< rows of a are kept in shared memory, and their norm is computed once
  int64_t wk = 1;     ///< subgroups that have the same outputs and share the steps of k
  int64_t per_compute_unit = 0;  ///< workgroups, of many tiles each; 0: a workgroup for each tile
  int64_t outputs(const RowsProduct& p) const {
    return (p.gated ? columns / 2 : columns) * (subgroups / wk);
  }
  std::string name() const {
    if (!kept) return "matmul_rows_" + text(rows);
    const std::string tile = text(rows) + "x" + text(columns);
    return "matmul_rows_" + tile + (wk > 1 ? "_w" + tile + "x" + text(wk) : "") + "_kept" +
           text(subgroups) + (per_compute_unit > 0 ? "_unit" + text(per_compute_unit) : "");
  }
};

/// The type of 16 bits that rows are kept in, as the kernel names it; 0: float32.
int64_t kept_halves(const NodeContext& c, const RowsProduct& p) {
  if (p.norm) return 0;
  const DType dtype = c.dtype("a");
  return dtype == DType::kF16 ? 1 : dtype == DType::kBF16 ? 2 : 0;
}

Tactic fused_tactic(const NodeContext& c, const RowsProduct& p, const FusedRows& tile) {
  Tactic tactic{.name = tile.name()};
  const int64_t lanes = c.device.subgroup_size, threads = tile.subgroups * lanes;
  if (!c.device.subgroup_size_control || lanes < 8) {
    tactic.refusal = "the device does not promise the size of subgroups";
    return tactic;
  }
  constexpr int64_t kWide = 2 * kSteps;
  const bool wide =
      !p.dense && p.weight.q.bits == 4 && p.weight.k % kWide == 0 && p.weight.group % kWide == 0;
  const int64_t round = (wide ? kWide : kSteps) * lanes;  // of k, all invocations of a subgroup
  const int64_t element = kept_halves(c, p) > 0 ? 2 : 4;
  const int64_t kept = tile.kept ? element * tile.rows * (div_up(p.weight.k, round) * round) : 0;
  const int64_t shared = kept + 4 * tile.rows * tile.subgroups * (2 * tile.columns + 1);
  const int64_t tiles = div_up(p.weight.n, tile.outputs(p));
  const int64_t most =
      tile.per_compute_unit > 0 ? tile.per_compute_unit * compute_units(c.device) : tiles;
  if (threads > c.device.max_workgroup_invocations) {
    tactic.refusal = "workgroups of " + text(threads) + " invocations are not possible";
  } else if (shared > c.device.max_shared_bytes) {
    tactic.refusal = "it needs " + text(shared) + " bytes of shared memory";
  } else if (tile.per_compute_unit > 0 && tiles <= most) {
    tactic.refusal = "there are few tiles";
  }
  if (!tactic.refusal.empty()) return tactic;
  const int64_t groups = std::min(tiles, most);
  Step step{.kernel = "matmul_rows",
            .grid = {{Expr(groups), ceil_div(p.m, tile.rows), 1}},
            .local_size = {static_cast<uint32_t>(threads), 1, 1},
            .subgroup_size = static_cast<uint32_t>(lanes)};
  add_problem(c, p, step);
  for (Operand& operand : step.operands) {
    operand.vec4 |= operand.name == "a" || operand.name == "b" || operand.name == "q";
  }
  step.params.push_back(param("a_m", p.weight.a_m));
  step.params.push_back(fixed("tiles_apart", groups));
  step.defines.insert(step.defines.end(), {{"A4", "1"},
                                           {"WIDE", flag(wide)},
                                           {"KEPT", flag(tile.kept)},
                                           {"KEPT_HALVES", text(kept_halves(c, p))},
                                           {"K_COUNT", text(p.weight.k) + "u"},
                                           {"ROWS", text(tile.rows)},
                                           {"COLS", text(tile.columns)},
                                           {"WK", text(tile.wk)},
                                           {"SUBGROUPS", text(tile.subgroups)},
                                           {"LANES_K", text(lanes)}});
  const int64_t rounds = div_up(p.weight.k, kSteps * lanes) + tile.rows + 1;
  step.iterations = Expr(p.weight.k / (4 * lanes) + div_up(tiles, groups) * rounds + 2);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

/// Whether workgroups that take several tiles each come out nearly even.
bool evenly_shared(const NodeContext& c, const RowsProduct& p, const FusedRows& tile) {
  const int64_t tiles = div_up(p.weight.n, tile.outputs(p));
  const int64_t groups = tile.per_compute_unit * compute_units(c.device);
  return tiles > groups && 20 * tiles >= 17 * div_up(tiles, groups) * groups;
}

/// Candidates, best first: few large workgroups that compute a norm once for tile after tile, then
/// a workgroup for each tile, large if enough of them fill the device.
std::vector<FusedRows> fused_tiles(const NodeContext& c, const RowsProduct& p) {
  const int64_t m = typical(c.graph, p.m), units = compute_units(c.device);
  const int64_t columns = p.gated ? 2 * p.weight.n : p.weight.n;
  std::vector<int64_t> heights = {4, 2, 1};
  std::ranges::stable_sort(heights, {}, [&](int64_t r) { return div_up(m, r) * (4 + r); });
  const auto rank = [&](const FusedRows& tile) {
    if (tile.per_compute_unit > 0)
      return evenly_shared(c, p, tile) ? int64_t{-1} : std::numeric_limits<int64_t>::max();
    const int64_t size = tile.columns * tile.subgroups;
    return 4 * units * size <= columns ? 0 : size;
  };
  std::vector<FusedRows> tiles;
  for (const int64_t rows : heights) {
    std::vector<FusedRows> kept = {{rows, 4, 8, true, 1, 4}, {rows, 4, 8, true, 1, 2},
                                   {rows, 2, 8, true, 1, 4}, {rows, 2, 8, true, 1, 2},
                                   {rows, 2, 4, true, 1, 4}, {rows, 4, 8, true},
                                   {rows, 2, 8, true},       {rows, 2, 4, true}};
    // Where nothing is unpacked, small workgroups are the fastest.
    if (p.dense) std::rotate(kept.begin(), kept.begin() + 4, kept.begin() + 5);
    std::ranges::stable_sort(kept, {}, rank);
    tiles.insert(tiles.end(), kept.begin(), kept.end());
    tiles.push_back({rows, 2, 4, false});
  }
  return tiles;
}

Tactic reference_tactic(const NodeContext& c, const RowsProduct& p) {
  Step step{.kernel = "matmul_rows_reference",
            .grid = one_each(p.m * p.weight.n, 64),
            .local_size = {64, 1, 1},
            .iterations = Expr(p.weight.k * 3)};
  add_problem(c, p, step);
  return {.name = "matmul_rows_reference", .steps = {std::move(step)}};
}

void convert(const NodeContext& c, Builder& b) {
  const RowsProduct p = product_of_node(c);
  std::vector<Tactic> tactics;
  for (const FusedRows& tile : fused_tiles(c, p)) tactics.push_back(fused_tactic(c, p, tile));
  tactics.push_back(reference_tactic(c, p));
  b.emit(std::move(tactics));
}

struct Example {
  DType dtype = DType::kF32;
  int64_t m = 1, bits = 0;  ///< 0: dense
  bool norm = true, gated = true;
  int64_t groups = 3;
  const char* format = "";
};

std::shared_ptr<const PointwiseProgram> product_program(DType dtype) {
  PointwiseProgram program{.inputs = {DType::kF32, dtype}};
  program.instrs = {{.function = "mul", .operands = {0, 1}}};
  program.results = {2};
  return std::make_shared<const PointwiseProgram>(std::move(program));
}

Graph example(const Example& e) {
  constexpr int64_t kN = 21, kK = 96;
  const int64_t rows = e.gated ? 2 * kN : kN;
  ExampleGraph g("tv::matmul_rows");
  g.input("a", e.dtype, {e.m, kK});
  if (e.bits == 0) {
    g.input("b", e.dtype, {rows, kK});
  } else {
    g.none("b").input("input", e.bits == 8 ? DType::kI8 : DType::kU8, {rows, kK * e.bits / 8});
    g.input("scale", DType::kF32, {rows, e.groups})
        .none("zero_point")
        .attr("bits", integer(e.bits));
    if (*e.format) g.attr("format", std::string(e.format));
  }
  g.attr("n", integer(kN)).attr("gated", e.gated).attr("swapped", false);
  if (e.norm) g.attr("eps", 1e-5).input("weight", e.dtype, {kK});
  Graph graph = g.output(e.dtype, {e.m, kN}).graph();
  Node& node = graph.nodes[0];
  if (e.norm) {
    node.prologue = product_program(e.dtype);
    node.prologue_inputs = {node.input("a"), node.input("weight")};
    node.prologue_shape = {Expr(kK)};
    node.args.pop_back();
  }
  if (e.gated) node.program = product_program(e.dtype);
  return graph;
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t bits : {0, 8, 4}) graphs.push_back(example({dtype, 1, bits}));
  }
  graphs.push_back(example({.m = 3, .gated = false}));
  graphs.push_back(example({.m = 5, .bits = 4, .norm = false}));
  graphs.push_back(example({.m = 2, .bits = 4, .groups = 6}));
  graphs.push_back(example({.m = 2, .bits = 4, .groups = 6, .format = "float4_e2m1fn"}));
  return graphs;
}

const RegisterConverter matmul_rows{{.op = "tv::matmul_rows",
                                     .convert = convert,
                                     .reads_views = {"*"},
                                     .epilogue = true,
                                     .float32_args = {"scale"},
                                     .examples = examples,
                                     .notes = "norm, product of few rows and gate as one launch"}};

}  // namespace

std::vector<Tactic> one_row_tactics(const NodeContext& c, const Product& product) {
  constexpr int64_t kSubgroups = 8, kSubgroupsPerComputeUnit = 12;
  const ValueId a = c.node.input("a");
  const auto n = product.n.constant(), k = product.k.constant();
  if (c.device.is_cpu() || c.node.prologue || !is_float(c.dtype("a")) || !n || !k) return {};
  if (c.dtype("a") == DType::kF64 || *n < 1 || *k < 1 || *k % kSteps != 0) return {};
  const View b = layout_of(c.graph, c.node.input("b"));
  const bool lies = product.a_k == Expr(1) && !c.graph.value(a).view && product.b_k == Expr(1) &&
                    product.b_n == product.k && b.offset == Expr(0) &&
                    c.graph.value(b.base).dtype == c.dtype("a");
  if (!(product.m == Expr(1)) || !product.batch.sizes.empty() || !lies) return {};
  RowsProduct p{.m = product.m, .dense = true, .b = b.base};
  p.weight.n = *n;
  p.weight.k = *k;
  p.weight.a_m = *k;
  p.weight.a_k = 1;
  const int64_t rounds = div_up(*k, kSteps * std::max(c.device.subgroup_size, 1U));
  const int64_t wanted = compute_units(c.device) * kSubgroupsPerComputeUnit;  // subgroups
  std::vector<Tactic> tactics;
  for (const int64_t columns : {2, 1, 4}) {
    int64_t wk = 1;
    while (wk < std::min(kSubgroups, rounds) && div_up(*n, columns) * wk < wanted) {
      wk *= 2;
    }
    tactics.push_back(fused_tactic(c, p, {1, columns, kSubgroups, true, wk}));
  }
  return tactics;
}

}  // namespace tv

// tv::matmul_rows: a product of few rows with what is before and behind it, made by fuse_products:
//   y = tv::matmul_rows(a, b, n, eps?, gated, swapped)
//   y = tv::matmul_rows(a, input, scale?, zero_point?, bits, n, eps?, gated, swapped)
// a [..., k] lies dense; b [rows, k] holds floats, or the arguments of tv::matmul_quantised name a
// packed matrix. With eps the node's prologue is computed of a's RMS norm: input 0 is the
// normalised element, the others are vectors of k elements. `gated`: the node's program is computed
// of the sums of rows i and i + n (`swapped`: in the other order), for n results.

#include <algorithm>

#include "converters/matmul/matmul_quantised.h"
#include "converters/matmul/matrix_units.h"
#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/pointwise_codegen.h"

namespace tv {
namespace {

constexpr int64_t kSteps = 16;  // of k, an invocation

struct RowsProduct {
  Expr m;
  bool dense = false, norm = false, gated = false;
  QuantisedProduct weight;  ///< n, k; the rest where it is not dense
};

RowsProduct product_of_node(const NodeContext& c) {
  RowsProduct p{.dense = c.node.has("b"), .norm = c.node.has("eps"), .gated = c.node.flag("gated")};
  p.weight.n = c.node.integer("n");
  p.weight.k = c.shape("a").back().constant().value();
  p.m = floordiv(product(c.shape("a")), p.weight.k);
  p.weight.a_m = p.weight.k;
  p.weight.a_k = 1;
  if (p.dense) return p;
  p.weight.q = quantised_of(c.node);
  set_groups(c, p.weight);
  return p;
}

/// A program as a function of the kernel, on one line.
std::string function_text(const PointwiseProgram& program, const std::string& name) {
  std::string text = pointwise_function(program, name);
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// What a kernel calls for normalised elements: NORM_WEIGHTS(k) loads what NORMED(x, result) reads
/// for four of them, NORMED_ONE(x, k, result) computes one.
void add_norm(const NodeContext& c, Step& step) {
  step.defines.emplace_back("NORM", flag(c.node.has("eps")));
  if (!c.node.has("eps")) return;
  step.params.push_back(number("eps", c.node.number("eps")));
  std::string loads, ones, fours[4];
  for (size_t i = 1; i < c.node.prologue_inputs.size(); ++i) {
    const std::string name = "norm" + std::to_string(i);
    Operand operand = src(name, c.node.prologue_inputs[i]);
    operand.vec4 = true;
    step.operands.push_back(operand);
    loads += "const " + name + "_V " + name + "_ = " + name + "_vec4(k_); ";
    ones += ", " + name + "_raw(k_)";
    for (int lane = 0; lane < 4; ++lane) fours[lane] += ", " + name + "_." + "xyzw"[lane];
  }
  std::string normed;
  for (int lane = 0; lane < 4; ++lane) {
    const std::string at(1, "xyzw"[lane]);
    normed += "{ float r_; normed(x_." + at + fours[lane] + ", r_); y_." + at + " = r_; } ";
  }
  step.defines.emplace_back("NORM_FUNCTION", function_text(*c.node.prologue, "normed"));
  step.defines.emplace_back("NORM_WEIGHTS(k_)", loads);
  step.defines.emplace_back("NORMED(x_, y_)", normed);
  step.defines.emplace_back("NORMED_ONE(x_, k_, y_)", "normed(x_" + ones + ", y_);");
}

void add_gate(const NodeContext& c, Step& step) {
  step.defines.emplace_back("GATED", flag(c.node.flag("gated")));
  if (!c.node.flag("gated")) return;
  step.defines.emplace_back("GATE_FUNCTION", function_text(*c.node.program, "gated"));
  step.defines.emplace_back("GATE(a_, b_, y_)",
                            c.node.flag("swapped") ? "gated(b_, a_, y_);" : "gated(a_, b_, y_);");
}

void add_problem(const NodeContext& c, const RowsProduct& p, Step& step) {
  step.operands = {src("a", c.node.input("a"))};
  step.defines.emplace_back("DENSE", flag(p.dense));
  if (p.dense) {
    step.operands.push_back(src("b", c.node.input("b")));
  } else {
    add_quantised_weight(c, p.weight, step);
  }
  add_norm(c, step);
  add_gate(c, step);
  step.operands.push_back(dst("y", c.node.outputs[0]));
  step.params.insert(step.params.end(), {param("m_count", p.m), param("n_count", p.weight.n),
                                         fixed("k_count", p.weight.k)});
}

/// How a workgroup shares a product: rows of a at once, rows of weights of a subgroup, subgroups,
/// and whether rows of a are kept in shared memory, their norm computed once.
struct FusedRows {
  int64_t rows, columns, subgroups;
  bool kept;
  std::string name() const {
    return "matmul_rows_" + text(rows) +
           (kept ? "x" + text(columns) + "_kept" + text(subgroups) : "");
  }
};

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
  const int64_t kept = tile.kept ? 4 * tile.rows * (div_up(p.weight.k, round) * round) : 0;
  const int64_t shared = kept + 4 * tile.rows * tile.subgroups * (tile.columns + 1);
  if (threads > c.device.max_workgroup_invocations) {
    tactic.refusal = "workgroups of " + text(threads) + " invocations are not possible";
  } else if (shared > c.device.max_shared_bytes) {
    tactic.refusal = "it needs " + text(shared) + " bytes of shared memory";
  }
  if (!tactic.refusal.empty()) return tactic;
  const int64_t outputs = p.gated ? tile.columns / 2 : tile.columns;
  Step step{
      .kernel = "matmul_rows",
      .grid = {{ceil_div(Expr(p.weight.n), outputs * tile.subgroups), ceil_div(p.m, tile.rows), 1}},
      .local_size = {static_cast<uint32_t>(threads), 1, 1},
      .subgroup_size = static_cast<uint32_t>(lanes)};
  add_problem(c, p, step);
  for (Operand& operand : step.operands) {
    operand.vec4 |= operand.name == "a" || operand.name == "b" || operand.name == "q";
  }
  step.params.push_back(param("a_m", p.weight.a_m));
  step.defines.insert(step.defines.end(), {{"A4", "1"},
                                           {"WIDE", flag(wide)},
                                           {"KEPT", flag(tile.kept)},
                                           {"K_COUNT", text(p.weight.k) + "u"},
                                           {"ROWS", text(tile.rows)},
                                           {"COLS", text(tile.columns)},
                                           {"WK", "1"},
                                           {"SUBGROUPS", text(tile.subgroups)},
                                           {"LANES_K", text(lanes)}});
  step.iterations = Expr(p.weight.k / (4 * lanes) + p.weight.k / (kSteps * lanes) + 2);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

/// Candidates, best first: large workgroups compute a norm for many outputs, if enough of them fill
/// the device.
std::vector<FusedRows> fused_tiles(const NodeContext& c, const RowsProduct& p) {
  const int64_t m = typical(c.graph, p.m), units = std::max<int64_t>(c.device.compute_units, 64);
  const int64_t columns = p.gated ? 2 * p.weight.n : p.weight.n;
  std::vector<int64_t> heights = {4, 2, 1};
  std::ranges::stable_sort(heights, {}, [&](int64_t r) { return div_up(m, r) * (4 + r); });
  std::vector<FusedRows> tiles;
  for (const int64_t rows : heights) {
    std::vector<FusedRows> kept = {{rows, 4, 8, true}, {rows, 2, 8, true}, {rows, 2, 4, true}};
    std::ranges::stable_sort(kept, {}, [&](const FusedRows& tile) {
      const int64_t size = tile.columns * tile.subgroups;
      return 4 * units * size <= columns ? 0 : size;
    });
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
}  // namespace tv

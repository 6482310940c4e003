// Products of rows with the matrices of their groups, as mixtures of experts have them:
//   y[s] = tv::matmul_grouped(a, b, ends, by_columns)[s] = a[s] · b[e], e the first with ends[e] >
//   s
// a [rows, k]; ends [groups], the row behind each group's last; rows behind all groups give zeros.
// b is [groups, n, k] or, `by_columns`, [groups, k, n], dense. Only matrices of groups that have
// rows are read.

#include "converters/matmul/grouped/matmul_grouped.h"

#include <algorithm>

#include "converters/kit/matmul_nodes.h"
#include "converters/kit/steps.h"
#include "converters/matmul/matrix_units.h"

namespace tv {
namespace {

GroupedProduct product_of_node(const NodeContext& c) {
  const Shape& b = c.shape("b");
  GroupedProduct p{.rows = c.shape("a").at(0), .groups = b.at(0)};
  p.by_columns = c.node.flag("by_columns");
  p.n = b.at(p.by_columns ? 2 : 1);
  p.k = b.at(p.by_columns ? 1 : 2);
  return p;
}

Step step_of(const NodeContext& c, const GroupedProduct& p, std::string kernel) {
  return {.kernel = std::move(kernel),
          .operands = {src("a", c.node.input("a")), src("b", c.node.input("b")),
                       src("ends", c.node.input("ends")), dst("y", c.node.outputs[0])},
          .params = {param("rows", p.rows), param("n_count", p.n), param("k_count", p.k),
                     param("groups", p.groups)}};
}

/// Why kernels that read four steps of k at once do not apply, or "".
std::string fours_refusal(const NodeContext& c, const GroupedProduct& p) {
  if (p.by_columns) return "neighbours in memory are columns";
  if (!is_float(c.dtype("a"))) return "not of floats";
  return divides(4, p.k) ? "" : "k is no multiple of 4";
}

void by_fours(Step& step) { step.operands[0].vec4 = step.operands[1].vec4 = true; }

/// A subgroup for some columns of one row.
Tactic rows_tactic(const NodeContext& c, const GroupedProduct& p, int64_t columns) {
  constexpr int64_t kSubgroups = 4;
  const int64_t lanes = c.device.subgroup_size;
  Tactic tactic{.name = "matmul_grouped_rows_" + text(columns), .refusal = fours_refusal(c, p)};
  if (c.device.is_cpu()) tactic.refusal = "another kernel is made for CPUs";
  if (!c.device.subgroup_size_control || lanes < 8) {
    tactic.refusal = "the device does not promise the size of subgroups";
  }
  if (!tactic.refusal.empty()) return tactic;
  Step step = step_of(c, p, "matmul_grouped_rows");
  by_fours(step);
  step.defines = {{"COLUMNS", text(columns)}, {"LANES_K", text(lanes)}};
  step.grid = {{ceil_div(p.n, columns * kSubgroups), p.rows, 1}};
  step.local_size = {static_cast<uint32_t>(kSubgroups * lanes), 1, 1};
  step.subgroup_size = static_cast<uint32_t>(lanes);
  step.iterations = ceil_div(p.k, 4 * lanes) + ceil_div(p.groups, lanes);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

/// Tiles of rows, each group of a tile in turn.
Tactic tiled_tactic(const NodeContext& c, const GroupedProduct& p, int64_t height) {
  constexpr int64_t kWidth = 64, kSteps = 16, kOfThread = 16;
  Tactic tactic{.name = "matmul_grouped_tiled_" + text(height) + "x" + text(kWidth),
                .refusal = fours_refusal(c, p)};
  if (c.device.is_cpu()) tactic.refusal = "workgroups that share memory are slow on a CPU";
  if (!tactic.refusal.empty()) return tactic;
  Step step = step_of(c, p, "matmul_grouped_tiled");
  by_fours(step);
  step.defines = {{"BM", text(height)}, {"BN", text(kWidth)}, {"BK", text(kSteps)}};
  step.grid = {{ceil_div(p.n, kWidth), ceil_div(p.rows, height), 1}};
  step.local_size = {static_cast<uint32_t>(height * kWidth / kOfThread), 1, 1};
  step.iterations = p.groups * (ceil_div(p.k, kSteps) + 1);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const GroupedProduct& p) {
  Step step = step_of(c, p, "matmul_grouped_reference");
  step.defines = {{"BY_COLUMNS", flag(p.by_columns)}};
  step.grid = one_each(p.rows * p.n, 64);
  step.iterations = p.groups + p.k + ceil_div(p.k, 32);
  return {.name = "matmul_grouped_reference", .steps = {std::move(step)}};
}

void convert(const NodeContext& c, Builder& b) {
  const GroupedProduct p = product_of_node(c);
  // A tile reads a matrix once, rows read it once each.
  const int64_t few = 4 * std::max<int64_t>(typical(c.graph, p.groups), 1);
  std::vector<Tactic> tactics;
  for (const int64_t columns : {4, 2}) tactics.push_back(rows_tactic(c, p, columns));
  for (const int64_t height : {64, 32}) tactics.push_back(tiled_tactic(c, p, height));
  if (typical(c.graph, p.rows) > few)
    std::rotate(tactics.begin(), tactics.begin() + 2, tactics.end());
  for (Tactic& tactic : grouped_simd_tactics(c, b, p)) tactics.push_back(std::move(tactic));
  tactics.push_back(reference_tactic(c, p));
  b.emit(std::move(tactics));
}

// What libraries call it: transformers::grouped_mm_fallback(input, weight, offs) and
// aten::_grouped_mm(self, mat2, offs, bias, out_dtype), both with matrices [groups, k, n].

struct Names {
  const char *a, *b;
};

std::string unsupported(const NodeContext& c, Names names) {
  const std::string op = "[" + c.node.op + "] ";
  if (!c.node.has("offs")) return op + "of matrices without groups";
  if (c.shape(names.a).size() != 2 || c.shape(names.b).size() != 3) {
    return op + "got " + text(static_cast<int64_t>(c.shape(names.a).size())) + " and " +
           text(static_cast<int64_t>(c.shape(names.b).size())) + " dimensions, want 2 and 3";
  }
  if (c.node.has("bias")) return op + "with a bias";
  const DType dtype = c.dtype(names.a);
  if (!is_float(dtype) || dtype == DType::kF64 || c.dtype(names.b) != dtype ||
      c.output().dtype != dtype) {
    return op + "operands and result must have one type, float32, float16 or bfloat16";
  }
  const Expr& k = c.shape(names.a).at(1);
  return loops_too_long(c, k + ceil_div(k, 32) + c.shape("offs").at(0));
}

Converter grouped(std::string op, Names names) {
  return {.op = std::move(op),
          .unsupported = [names](const NodeContext& c) { return unsupported(c, names); },
          .expand =
              [names](const NodeContext& c, Rewriter& rw) {
                const bool by_columns = c.device.is_cpu();  // as matmul_simd reads them
                const ValueId b = c.node.input(names.b);
                rw.replace(0, rw.add("tv::matmul_grouped",
                                     {tensor_arg("a", c.node.input(names.a)),
                                      tensor_arg("b", by_columns ? b : transposed(rw, b)),
                                      tensor_arg("ends", c.node.input("offs")),
                                      attr_arg("by_columns", by_columns)},
                                     c.output().dtype, c.output().shape));
              }};
}

std::vector<Graph> examples() {
  constexpr int64_t kRows = 37, kN = 21, kK = 44, kGroups = 5;
  std::vector<Graph> graphs;
  const auto add = [&](DType dtype, DType ends, bool by_columns) {
    const Shape b = by_columns ? Shape{kGroups, kK, kN} : Shape{kGroups, kN, kK};
    graphs.push_back(ExampleGraph("tv::matmul_grouped")
                         .input("a", dtype, {kRows, kK})
                         .input("b", dtype, b)
                         .input("ends", ends, {kGroups})
                         .attr("by_columns", by_columns)
                         .output(dtype, {kRows, kN})
                         .graph());
  };
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    add(dtype, DType::kI32, false);
    add(dtype, DType::kI64, true);
  }
  return graphs;
}

const RegisterConverter products{
    {.op = "tv::matmul_grouped",
     .convert = convert,
     .epilogue = true,
     .examples = examples,
     .notes = "on GPUs, nothing of experts that no token chose is read"},
    typed(grouped("transformers::grouped_mm_fallback", {"input", "weight"}),
          "input [m k], weight [g k n], offs [g] -> [m n]"),
    typed(grouped("aten::_grouped_mm", {"self", "mat2"}),
          "self [m k], mat2 [g k n], offs [g] -> [m n] | self [g m k], mat2 [g k n] -> [g m n] | "
          "self [m k], mat2 [k n], offs [g] -> [g m n] | self [g m k], mat2 [k n], offs [g] -> "
          "[m n]"),
};

}  // namespace
}  // namespace tv

// sort, topk, and single elements of sorted lines: kthvalue, median, nanmedian, mode.

#include "converters/kit/row_types.h"
#include "converters/sorting/sort_simd.h"

namespace tv {
namespace {

/// The values' and, where somebody reads them, the positions' output.
ValueId indices_of(const NodeContext& c) {
  const auto& outputs = c.node.outputs;
  return outputs.size() > 1 && is_used(c.graph, outputs[1]) ? outputs[1] : kNoValue;
}

/// Writes the first elements of each line, and their positions where wanted.
Step emit_step(const SortLines& lines, const SortedLines& sorted, ValueId y, ValueId indices) {
  const Expr outputs = lines.lines() * lines.limit;
  Step emit{.kernel = "sort_emit",
            .defines = {{"INDICES", indices == kNoValue ? "0" : "1"}},
            .operands = {src("x", lines.x.value), src("at", sorted.at), dst("y", y)},
            .params = {param("outputs", outputs), param("count", lines.split.size),
                       param("inner", lines.split.inner), param("limit", lines.limit),
                       param("from", sorted.from), param("pitch", sorted.pitch)},
            .grid = one_each(outputs, 64)};
  if (indices != kNoValue) emit.operands.push_back(dst("idx", indices));
  return emit;
}

void convert_sort(const NodeContext& c, Builder& b) {
  SortLines lines = sort_lines(c);
  const bool topk = c.node.find("k") != nullptr;
  lines.descending = topk ? c.node.flag("largest") : c.node.flag("descending");
  if (topk) lines.limit = c.shape("self").empty() ? product(c.output().shape) : c.node.expr("k");
  const ValueId y = c.node.outputs[0], indices = indices_of(c);
  if (is_one_tile(c, lines)) {
    b.emit({{.name = "sort_tile", .steps = {sort_directly(c, lines, y, indices)}}});
    return;
  }
  std::vector<Tactic> tactics;
  if (c.device.is_cpu()) {
    SimdSort simd = sort_by_simd(c, b, lines);
    simd.steps.push_back(emit_by_simd(c, lines, simd.sorted, y, indices)
                             .value_or(emit_step(lines, simd.sorted, y, indices)));
    tactics.push_back(
        {.name = "sort_simd", .refusal = simd.refusal, .steps = std::move(simd.steps)});
  }
  std::vector<Step> steps;
  const SortedLines sorted = sort(c, b, lines, steps);
  steps.push_back(emit_step(lines, sorted, y, indices));
  tactics.push_back({.name = "sort_merge", .steps = std::move(steps)});
  b.emit(std::move(tactics));
}

/// Writes one element of each sorted line.
Step pick_step(const NodeContext& c, const SortLines& lines, const SortedLines& sorted,
               const std::string& rule) {
  const ValueId indices = indices_of(c);
  Step step{.kernel = "sort_pick",
            .defines = {{"INDICES", indices == kNoValue ? "0" : "1"}},
            .operands = {src("x", lines.x.value), dst("y", c.node.outputs[0])}};
  if (indices != kNoValue) step.operands.push_back(dst("idx", indices));
  sorted.add_to(step, lines);
  if (rule == "MODE") {
    step.kernel = "sort_mode";
    step.grid = Grid::flat_groups(lines.lines());
    step.iterations = ceil_div(lines.split.size, 64) * 33 + 8;
  } else {
    step.defines.emplace_back("RULE", rule);
    if (rule == "KTH") step.params.push_back(param("wanted", lines.limit - 1));
    step.grid = one_each(lines.lines(), 64);
    step.iterations = 33;
  }
  return step;
}

void convert_pick(const NodeContext& c, Builder& b, const std::string& rule) {
  SortLines lines = sort_lines(c);
  const bool nans = is_float(c.dtype("self"));
  if (rule == "KTH") lines.limit = c.node.expr("k");
  if (rule != "KTH" && rule != "MODE" && !nans) lines.limit = floordiv(lines.split.size + 1, 2);
  std::vector<Tactic> tactics;
  if (c.device.is_cpu()) {
    SimdSort simd = sort_by_simd(c, b, lines);
    simd.steps.push_back(pick_step(c, lines, simd.sorted, rule));
    tactics.push_back(
        {.name = "sort_simd", .refusal = simd.refusal, .steps = std::move(simd.steps)});
  }
  std::vector<Step> steps;
  const SortedLines sorted = sort(c, b, lines, steps);
  steps.push_back(pick_step(c, lines, sorted, rule));
  tactics.push_back({.name = "sort_pick", .steps = std::move(steps)});
  b.emit(std::move(tactics));
}

std::string pick_unsupported(const NodeContext& c, const std::string& rule) {
  const Expr size = sort_lines(c).split.size;
  if (size == Expr(0)) return "[" + c.node.op + "] of an empty line";
  return rule == "MODE" ? loops_too_long(c, ceil_div(size, 64)) : "";
}

std::vector<Graph> sort_examples(const std::string& op) {
  std::vector<Graph> graphs;
  const bool topk = op == "aten::topk";
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kU8}) {
    for (const int64_t length : {int64_t{60}, int64_t{1100}}) {
      const int64_t kept = topk ? 3 : length;
      ExampleGraph g(op);
      g.input("self", dtype, {3, length, 2}).attr("dim", integer(1));
      g.attr(topk ? "largest" : "descending", dtype == DType::kF32);
      if (topk) g.attr("k", integer(kept));
      g.output(dtype, {3, kept, 2}).output(DType::kI64, {3, kept, 2});
      graphs.push_back(g.graph());
    }
  }
  const int64_t kept = topk ? 70 : 1100;  // of lines that lie in memory as such, whole vectors
  ExampleGraph lines(op);
  lines.input("self", DType::kF32, {3, 1100}).attr("dim", integer(1));
  lines.attr(topk ? "largest" : "descending", true);
  if (topk) lines.attr("k", integer(kept));
  graphs.push_back(lines.output(DType::kF32, {3, kept}).output(DType::kI64, {3, kept}).graph());
  return graphs;
}

std::vector<Graph> pick_examples(const std::string& op, const std::string& rule, bool along) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kU8}) {
    ExampleGraph g(op);
    g.input("self", dtype, {3, 1100, 2});
    if (rule == "KTH") g.attr("k", integer(2));
    if (along) {
      g.attr("dim", integer(1)).output(dtype, {3, 2}).output(DType::kI64, {3, 2});
    } else {
      g.output(dtype, {});
    }
    graphs.push_back(g.graph());
  }
  return graphs;
}

Converter sorted(std::string op) {
  return {.op = op,
          .convert = convert_sort,
          .reads_views = {"self"},
          .epilogue = true,
          .examples = [op] { return sort_examples(op); },
          .notes = "always stable"};
}

Converter picked(std::string op, std::string rule, bool along) {
  return {.op = op,
          .unsupported = [rule](const NodeContext& c) { return pick_unsupported(c, rule); },
          .convert = [rule](const NodeContext& c, Builder& b) { convert_pick(c, b, rule); },
          .reads_views = {"self"},
          .epilogue = true,
          .examples = [op, rule, along] { return pick_examples(op, rule, along); },
          .notes = "of equal elements the first in order, of a mode the last"};
}

const RegisterConverter sorts{
    typed(sorted("aten::sort"), types::of_rows("self [*s] -> [*s], [*s]")),
    typed(sorted("aten::sort.stable"), types::of_rows("self [*s] -> [*s], [*s]")),
    typed(sorted("aten::topk"), types::largest),
    typed(picked("aten::kthvalue", "KTH", true), types::kth),
    typed(picked("aten::median", "MEDIAN", false), types::reduced),
    typed(picked("aten::median.dim", "MEDIAN", true), types::picked_of_rows),
    typed(picked("aten::nanmedian", "NANMEDIAN", false), types::reduced),
    typed(picked("aten::nanmedian.dim", "NANMEDIAN", true), types::picked_of_rows),
    typed(picked("aten::mode", "MODE", true), types::picked_of_rows),
};

}  // namespace
}  // namespace tv

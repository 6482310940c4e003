// Running results along one dimension: cumsum, cumprod, logcumsumexp, cummax, cummin, and the
// linear recurrence of state-space models.

#include <algorithm>
#include <bit>

#include "converters/kit/row_types.h"
#include "converters/kit/rows.h"
#include "converters/kit/shape_types.h"

namespace tv {
namespace {

constexpr int64_t kUnroll = 8;        // elements an iteration of a lane
constexpr int64_t kRun = 4;           // elements an invocation of a workgroup, each tile
constexpr int64_t kManyLines = 4096;  // give a GPU enough to do, one an invocation

struct Scan {
  std::string op;         // the kernel's OP
  bool extremes = false;  // with positions

  bool linear() const { return op == "LINEAR"; }
};

DimSplit split(const NodeContext& c) {
  const Shape& shape = c.shape("self");
  const auto rank = static_cast<int64_t>(shape.size());
  return split_at(shape, rank == 0 ? 0 : c.wrap(c.node.integer("dim"), rank));
}

/// Iterations of the loops over a line by a workgroup of `local` invocations.
Expr group_iterations(const Expr& count, uint32_t local) {
  return ceil_div(count, local * kRun) * int64_t{1 + std::bit_width(local - 1)};
}

uint32_t group_size(const DeviceProfile& device) {
  return std::min({256U, device.max_workgroup_invocations, device.max_workgroup_size[0]});
}

/// What the kernel makes of an element: torch rounds it to the result's type first.
std::string taken(DType from, DType to) {
  if (from != to && to == DType::kF16) return "tv_from_f16(tv_to_f16(float(v)))";
  if (from != to && to == DType::kBF16) return "tv_from_bf16(tv_to_bf16(float(v)))";
  return "KEY(v)";
}

void convert(const NodeContext& c, Builder& b, const Scan& scan) {
  const DimSplit at = split(c);
  const Expr lines = at.outer * at.inner;
  // Extremes compare what is there; sums and products are of the result's type.
  const DType result = c.output().dtype;
  const DType dtype = scan.extremes ? c.dtype("self") : result;
  const std::string key = key_type(dtype);
  const bool indices = scan.extremes && is_used(c.graph, c.node.outputs.at(1));
  Step base{.kernel = "scan",
            .defines = {{"OP", scan.op},
                        {"KEY", key},
                        {"TAKEN(v)", taken(c.dtype("self"), dtype)},
                        {"FLOAT_KEY", key == "float" ? "1" : "0"},
                        {"INDICES", indices ? "1" : "0"}},
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("rows", lines), param("count", at.size), param("inner", at.inner)}};
  if (indices) base.operands.push_back(dst("idx", c.node.outputs[1]));
  if (scan.linear()) base.operands.push_back(src("factor", c.node.input("factor")));

  Step serial = base;
  serial.defines.insert(serial.defines.end(),
                        {{"PER_INVOCATION", "1"}, {"UNROLL", std::to_string(kUnroll)}});
  serial.grid = one_each(lines, 64);
  serial.iterations = ceil_div(at.size, kUnroll) + kUnroll;
  Step group = base;
  const uint32_t local = group_size(c.device);
  group.defines.insert(group.defines.end(),
                       {{"PER_INVOCATION", "0"}, {"UNROLL", std::to_string(kRun)}});
  group.local_size = {local, 1, 1};
  group.grid = Grid::flat_groups(lines);
  group.iterations = group_iterations(at.size, local);

  const int64_t most = c.device.max_loop_iterations();
  const bool too_long = at.size.bounds(c.graph.symbols).second / kUnroll >= most - kUnroll;
  const bool few = typical(c.graph, lines) < kManyLines && typical(c.graph, at.size) >= 64;
  const Tactic by_invocation{.name = "scan_invocation", .steps = {serial}};
  const Tactic by_group{.name = "scan_group" + std::to_string(local), .steps = {group}};
  if (too_long || (few && !c.device.is_cpu())) {
    b.emit({by_group, by_invocation});
  } else {
    b.emit({by_invocation, by_group});
  }
}

std::string unsupported(const NodeContext& c, const Scan& scan) {
  if (scan.op == "LOG_SUM_EXP" || scan.linear()) {
    const std::string reason = floats_only(c, "self");
    if (!reason.empty()) return reason;
  }
  if (!scan.extremes && c.output().dtype == DType::kBool) {
    return "[" + c.node.op + "] a running result of type bool; ask for an integer type";
  }
  return loops_too_long(c, group_iterations(split(c).size, group_size(c.device)));
}

std::vector<Graph> examples(const std::string& op, const Scan& scan) {
  std::vector<Graph> graphs;
  using Pair = std::pair<DType, DType>;
  std::vector<Pair> pairs = {{DType::kF32, DType::kF32}, {DType::kF16, DType::kF16}};
  if (scan.extremes) {
    for (const DType d : {DType::kI64, DType::kI32, DType::kU8}) pairs.emplace_back(d, d);
  } else if (scan.op != "LOG_SUM_EXP" && !scan.linear()) {
    pairs.insert(
        pairs.end(),
        {{DType::kBool, DType::kI64}, {DType::kI32, DType::kI64}, {DType::kI32, DType::kI32}});
  }
  for (const auto& [in, out] : pairs) {
    ExampleGraph g(op);
    g.input("self", in, {5, 300, 7});
    if (scan.linear()) g.input("factor", in, {5, 300, 7});
    g.attr("dim", integer(1)).output(out, {5, 300, 7});
    if (scan.extremes) g.output(DType::kI64, {5, 300, 7});
    graphs.push_back(g.graph());
  }
  return graphs;
}

TypeRule types_of(const Scan& scan) {
  if (scan.linear()) return types::of_rows("self F[*s], factor F[*s] -> F[*s]");
  return types::of_rows(scan.extremes ? "self [*s] -> [*s], [*s]" : types::kSame);
}

Converter entry(std::string op, Scan scan) {
  return {.op = op,
          .unsupported = [scan](const NodeContext& c) { return unsupported(c, scan); },
          .convert = [scan](const NodeContext& c, Builder& b) { convert(c, b, scan); },
          .prologue_arg = "self",
          .epilogue = true,
          .types = types_of(scan),
          .examples = [op, scan] { return examples(op, scan); },
          .notes = scan.extremes
                       ? ""
                       : "running results are float32: one past its range stays infinite"};
}

const RegisterConverter scans{
    in_float32(entry("aten::cumsum", {"SUM"})),
    entry("aten::cumprod", {"PRODUCT"}),
    entry("aten::logcumsumexp", {"LOG_SUM_EXP"}),
    entry("aten::cummax", {"MAXIMUM", true}),
    entry("aten::cummin", {"MINIMUM", true}),
    in_float32(entry("torch_vulkan::linear_recurrence", {"LINEAR"})),  // linear_scans.py
};

}  // namespace
}  // namespace tv

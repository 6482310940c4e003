// Norms of rows: layer, group and RMS norm, with the statistics that a backward pass reads.

#include <limits>

#include "converters/kit/rows.h"

namespace tv {
namespace {

constexpr int64_t kPasses = 4;  // mean, spread, result; each a little more than its elements

struct Norm {
  Expr rows, count;
  double eps = 0;
  bool rms = false;
  ValueId mean = kNoValue, rstd = kNoValue;  // outputs; kNoValue: not wanted
  std::optional<Expr> groups = {};           // group norm: per image
  Expr group_channels = {}, spatial = {};
};

/// Long rows on CPU drivers, in blocks: their sums, the rows' moments, the results.
Tactic blocks_tactic(const NodeContext& c, Builder& b, const Norm& norm) {
  const RowBlocks rows = norm.groups ? row_blocks(c, norm.rows, norm.group_channels, norm.spatial)
                                     : row_blocks(c, norm.rows, 1, norm.count);
  Tactic tactic{.name = "row_norm_simd_blocks", .refusal = rows.refusal};
  if (!tactic.refusal.empty()) return tactic;
  const ValueId sums = b.scratch("sums", DType::kF32, {norm.rows * rows.in_row() * 2});
  const ValueId moments = b.scratch("moments", DType::kF32, {norm.rows * 2});
  const bool plain = !c.node.prologue && c.dtype("input") == DType::kF32;
  const char* load = plain ? "simd_load(simd_at(x_ptr, i))" : "x_simd(i)";
  const std::pair<std::string, std::string> rms = {"RMS", flag(norm.rms)};

  Step first = rows.each(c, "row_norm_blocks", load);
  first.defines.push_back(rms);
  first.operands = {src("x", c.node.input("input")), dst("sums", sums)};
  first.params.push_back(param("group_channels", rows.segments));

  Step merge = rows.merged("row_norm_merge");
  merge.defines = {
      rms, {"MEAN", flag(norm.mean != kNoValue)}, {"RSTD", flag(norm.rstd != kNoValue)}};
  merge.operands = {src("sums", sums), dst("moments", moments)};
  merge.params.insert(merge.params.end(),
                      {param("count", rows.count), param("group_channels", rows.segments),
                       param("width", Expr(rows.width)), number("eps", norm.eps)});
  if (norm.mean != kNoValue) merge.operands.push_back(dst("mean", norm.mean));
  if (norm.rstd != kNoValue) merge.operands.push_back(dst("rstd", norm.rstd));

  Step last = rows.each(c, "row_norm_apply", load);
  last.operands = {src("x", c.node.input("input")), src("moments", moments),
                   dst("y", c.node.outputs[0])};
  last.defines.emplace_back("CHANNELS", flag(norm.groups.has_value()));
  last.defines.emplace_back("WEIGHT", flag(c.node.has("weight")));
  last.defines.emplace_back("BIAS", flag(c.node.has("bias")));
  if (c.node.has("weight")) last.operands.push_back(src("w", c.node.input("weight")));
  if (c.node.has("bias")) last.operands.push_back(src("b", c.node.input("bias")));
  last.params.push_back(param("group_channels", rows.segments));
  if (norm.groups) last.params.push_back(param("groups", *norm.groups));
  tactic.steps = {std::move(first), std::move(merge), std::move(last)};
  return tactic;
}

void emit(const NodeContext& c, Builder& b, const Norm& norm) {
  Step base{.kernel = "row_norm"};
  base.operands = {src("x", c.node.input("input")), dst("y", c.node.outputs[0])};
  base.params = {param("rows", norm.rows), param("count", norm.count), number("eps", norm.eps)};
  const auto define = [&](const char* name, bool value) {
    base.defines.emplace_back(name, value ? "1" : "0");
  };
  define("RMS", norm.rms);
  define("CHANNELS", norm.groups.has_value());
  define("WEIGHT", c.node.has("weight"));
  define("BIAS", c.node.has("bias"));
  define("MEAN", norm.mean != kNoValue);
  define("RSTD", norm.rstd != kNoValue);
  if (c.node.has("weight")) base.operands.push_back(src("w", c.node.input("weight")));
  if (c.node.has("bias")) base.operands.push_back(src("b", c.node.input("bias")));
  if (norm.mean != kNoValue) base.operands.push_back(dst("mean", norm.mean));
  if (norm.rstd != kNoValue) base.operands.push_back(dst("rstd", norm.rstd));
  if (norm.groups) {
    base.params.push_back(param("groups", *norm.groups));
    base.params.push_back(param("group_channels", norm.group_channels));
    base.params.push_back(param("spatial", norm.spatial));
  }

  std::vector<Tactic> tactics;
  const bool fours = !norm.groups || mod(norm.spatial, 4) == Expr(0);
  const RowShape shape{.rows = typical(c.graph, norm.rows),
                       .length = typical(c.graph, norm.count),
                       .longest = norm.count.bounds(c.graph.symbols).second,
                       .passes = kPasses,
                       .vectors = fours ? whole_vectors(norm.count) : 0};
  Step step = base;
  Tactic simd{.name = "row_norm_simd"};
  simd.refusal = norm.groups ? "weights are per channel"
                             : make_row_simd(c, shape, norm.rows, norm.count, step);
  simd.steps = {step};
  tactics.push_back(std::move(simd));
  tactics.push_back(blocks_tactic(c, b, norm));
  for (const RowStrategy& strategy : row_strategies(c.device, shape)) {
    Step step = base;
    strategy.apply(step, norm.rows, norm.count * kPasses);
    tactics.push_back({.name = "row_norm_" + strategy.suffix(), .steps = {step}});
  }
  b.emit(std::move(tactics));
}

ValueId wanted(const NodeContext& c, size_t output) {
  if (output >= c.node.outputs.size()) return kNoValue;
  return is_used(c.graph, c.node.outputs[output]) ? c.node.outputs[output] : kNoValue;
}

/// Rows and columns of a norm over the last dimensions.
Norm trailing(const NodeContext& c) {
  const Shape& shape = c.shape("input");
  const size_t lead = shape.size() - c.node.exprs("normalized_shape").size();
  return {.rows = product_of(shape, 0, lead), .count = product_of(shape, lead, shape.size())};
}

void layer_norm(const NodeContext& c, Builder& b) {
  Norm norm = trailing(c);
  norm.eps = c.node.number("eps");
  norm.mean = wanted(c, 1);
  norm.rstd = wanted(c, 2);
  emit(c, b, norm);
}

void rms_norm(const NodeContext& c, Builder& b) {
  Norm norm = trailing(c);
  norm.rms = true;
  norm.rstd = wanted(c, 1);
  // torch's default: the epsilon of the type that it computes in.
  norm.eps = c.node.has("eps") ? c.node.number("eps") : std::numeric_limits<float>::epsilon();
  emit(c, b, norm);
}

/// Rows and columns of a norm over groups of channels.
Norm grouping(const NodeContext& c) {
  const Shape& shape = c.shape("input");
  const bool native = c.node.op == "aten::native_group_norm";
  const int64_t groups = c.node.integer(native ? "group" : "num_groups");
  Norm norm;
  norm.spatial = product_of(shape, 2, shape.size());
  norm.group_channels = floordiv(shape[1], groups);
  norm.groups = groups;
  norm.rows = shape[0] * groups;
  norm.count = norm.group_channels * norm.spatial;
  return norm;
}

void group_norm(const NodeContext& c, Builder& b) {
  Norm norm = grouping(c);
  norm.eps = c.node.number("eps");
  norm.mean = wanted(c, 1);
  norm.rstd = wanted(c, 2);
  emit(c, b, norm);
}

std::string unsupported(const NodeContext& c) {
  const bool grouped = c.node.find("normalized_shape") == nullptr;
  const Expr length = (grouped ? grouping(c) : trailing(c)).count;
  std::string floats = floats_only(c, "input");
  for (const char* affine : {"weight", "bias"}) {
    if (floats.empty() && c.node.has(affine)) floats = floats_only(c, affine);
  }
  return floats.empty() ? row_too_long(c, length, kPasses) : floats;
}

/// A norm of the last dimension of (7, length), with every output used.
Graph trailing_example(const std::string& op, DType dtype, int64_t length, bool affine) {
  ExampleGraph g(op);
  g.input("input", dtype, {7, length}).attr("normalized_shape", ints({length}));
  affine ? g.input("weight", dtype, {length}) : g.none("weight");
  if (op.find("rms") == std::string::npos) {
    affine ? g.input("bias", dtype, {length}) : g.none("bias");
  }
  g.attr("eps", 1e-5).output(dtype, {7, length});
  const bool native = op == "aten::native_layer_norm";
  if (native || op == "aten::_fused_rms_norm") g.output(DType::kF32, {7, 1});
  if (native) g.output(DType::kF32, {7, 1});
  return g.graph();
}

std::vector<Graph> trailing_examples(const std::string& op) {
  return {
      trailing_example(op, DType::kF32, 768, true), trailing_example(op, DType::kF16, 768, true),
      trailing_example(op, DType::kBF16, 37, true), trailing_example(op, DType::kF32, 37, false)};
}

Graph group_example(const std::string& op, DType dtype) {
  ExampleGraph g(op);
  g.input("input", dtype, {3, 6, 11, 7}).input("weight", dtype, {6}).input("bias", dtype, {6});
  g.attr("N", integer(3)).attr("C", integer(6)).attr("HxW", integer(77));
  g.attr("group", integer(2)).attr("num_groups", integer(2)).attr("eps", 1e-5);
  g.output(dtype, {3, 6, 11, 7});
  if (op == "aten::native_group_norm") g.output(dtype, {3, 2}).output(dtype, {3, 2});
  return g.graph();
}

using Examples = decltype(Converter::examples);

/// Over the last dimensions, those of normalized_shape.
void layer_norm_types(NodeTypes& t) {
  const Shape shape = t.shape("input");
  const std::vector<Expr> last = t.node().exprs("normalized_shape");
  t.want(!last.empty() && last.size() <= shape.size(),
         "normalized_shape has " + std::to_string(last.size()) + " sizes");
  const auto lead = static_cast<std::ptrdiff_t>(shape.size() - last.size());
  t.equal(Shape(shape.begin() + lead, shape.end()), last, "the end of argument 'input'");
  for (const char* arg : {"weight", "bias"}) {
    if (t.has(arg)) t.equal(t.shape(arg), last, arg);
  }
  t.gives(shape);
  Shape of_rows(shape.begin(), shape.begin() + lead);
  of_rows.resize(shape.size(), Expr(1));
  for (size_t i = 1; i < t.results(); ++i) t.gives(of_rows, i);
}

void group_norm_types(NodeTypes& t) {
  const Shape shape = t.shape("input");
  t.want(shape.size() >= 2, "wants two dimensions");
  const bool native = t.node().find("group") != nullptr;
  const int64_t groups = t.integer(native ? "group" : "num_groups", 1);
  t.want(groups > 0, "wants groups");
  t.equal(mod(shape[1], groups), 0, "what is left of the channels");
  for (const char* arg : {"weight", "bias"}) {
    if (t.has(arg)) t.equal(t.shape(arg), {shape[1]}, arg);
  }
  if (native) {
    t.equal(t.node().expr("N"), shape[0], "argument 'N'");
    t.equal(t.node().expr("C"), shape[1], "argument 'C'");
    t.equal(t.node().expr("HxW"), product(Shape(shape.begin() + 2, shape.end())), "argument 'HxW'");
  }
  t.gives(shape);
  for (size_t i = 1; i < t.results(); ++i) t.gives({shape[0], groups}, i);
}

Converter norm(std::string op, decltype(Converter::convert) convert, Examples examples) {
  return {.op = std::move(op),
          .unsupported = unsupported,
          .convert = std::move(convert),
          .reads_views = {"weight", "bias"},
          .prologue_arg = "input",
          .epilogue = true,
          .examples = std::move(examples)};
}

Converter trailing_norm(std::string op, decltype(Converter::convert) convert) {
  return typed(norm(op, std::move(convert), [op] { return trailing_examples(op); }),
               layer_norm_types);
}

Converter grouped_norm(std::string op) {
  return typed(norm(op, group_norm,
                    [op] {
                      return std::vector<Graph>{group_example(op, DType::kF32),
                                                group_example(op, DType::kF16)};
                    }),
               group_norm_types);
}

const RegisterConverter norms{
    trailing_norm("aten::native_layer_norm", layer_norm),
    trailing_norm("aten::layer_norm", layer_norm),
    trailing_norm("aten::rms_norm", rms_norm),
    trailing_norm("aten::_fused_rms_norm", rms_norm),
    grouped_norm("aten::native_group_norm"),
    grouped_norm("aten::group_norm"),
};

}  // namespace
}  // namespace tv

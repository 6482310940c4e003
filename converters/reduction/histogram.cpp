// histc: how many elements fall in each of equal bins. Every bin counts its own, so nothing is
// added in an order that changes.

#include "converters/kit/linspace.h"
#include "converters/kit/reduction.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

constexpr int64_t kMostComparisons = int64_t{1} << 28;

struct Bounds {
  ValueId low = kNoValue, high = kNoValue;  // 0-dim float32
};

/// min and max, or, where they are equal, the data's own; one apart on both sides if these are,
/// too.
Bounds bounds_of(const NodeContext& c, Rewriter& r, ValueId x) {
  const double low = c.node.number("min"), high = c.node.number("max");
  if (low != high) return {float_number(r, low), float_number(r, high)};
  std::vector<int64_t> all;
  for (int64_t d = 0; d < r.graph().rank(x); ++d) all.push_back(d);
  const ValueId least = add_reduce(r, x, {.kind = "min", .dims = all}, DType::kF32);
  const ValueId most = add_reduce(r, x, {.kind = "max", .dims = all}, DType::kF32);
  const ValueId alike = r.pointwise("eq", {least, most}, DType::kBool);
  const ValueId below = r.pointwise("sub", {least}, DType::kF32, {1.0});
  const ValueId above = r.pointwise("add", {most}, DType::kF32, {1.0});
  return {r.pointwise("where", {alike, below, least}, DType::kF32),
          r.pointwise("where", {alike, above, most}, DType::kF32)};
}

void histc(const NodeContext& c, Rewriter& r) {
  const Expr count = product(c.shape("self")), bins = c.node.expr("bins");
  if (count == Expr(0)) {
    r.replace(0, r.add("tv::fill", {attr_arg("start", Expr(0)), attr_arg("step", Expr(0))},
                       c.output().dtype, {bins}));
    return;
  }
  const auto number = static_cast<double>(*bins.constant());
  const ValueId x = r.reshape(c.node.input("self"), {count});
  const Bounds b = bounds_of(c, r, x);
  const ValueId from_low = r.pointwise("sub", {x, b.low}, DType::kF32);
  const ValueId width = r.pointwise("sub", {b.high, b.low}, DType::kF32);
  const ValueId scaled = r.pointwise("mul", {from_low}, DType::kF32, {number});
  const ValueId at =
      r.pointwise("floor", {r.pointwise("div", {scaled, width}, DType::kF32)}, DType::kF32);
  const ValueId bin =
      r.pointwise("minimum", {at}, DType::kF32, {number - 1});  // the last holds `high`
  const ValueId outside = r.pointwise("gt", {x, b.high}, DType::kBool);
  const ValueId kept = r.pointwise("masked_fill", {bin, outside}, DType::kF32, {-1.0});
  const ValueId numbers = r.add("aten::arange.start_step",
                                {attr_arg("start", Expr(0)), attr_arg("end", bins),
                                 attr_arg("step", Expr(1)), attr_arg("dtype", DType::kF32)},
                                DType::kF32, {bins});
  const ValueId hits =
      r.pointwise("eq", {r.reshape(kept, {1, count}), r.reshape(numbers, {bins, 1})}, DType::kBool);
  r.replace(0, add_reduce(r, hits, {.kind = "sum", .dims = {1}}, c.output().dtype));
}

std::string unsupported(const NodeContext& c) {
  if (c.dtype("self") != DType::kF32) return "[" + c.node.op + "] of another type than float32";
  const Expr count = product(c.shape("self"));
  if (count != Expr(0) && count.bounds(c.graph.symbols).first < 1) {
    return "[" + c.node.op + "] the tensor may be empty";
  }
  if (typical(c.graph, count) * c.node.integer("bins") <= kMostComparisons) return "";
  return "[" + c.node.op + "] of more than " + std::to_string(kMostComparisons) +
         " comparisons of elements with bins";
}

void types(NodeTypes& t) {
  t.at_least(t.expr("bins", 100), 1, "argument 'bins'");
  t.gives({t.expr("bins", 100)});
}

const RegisterConverter histograms{
    {.op = "aten::histc", .unsupported = unsupported, .expand = histc, .types = types}};

}  // namespace
}  // namespace tv

// histogram and histogramdd: how many points, or what weight of them, lie between edges, along one
// dimension or several. Every bin adds up its own, so nothing is added in an order that changes.

#include "converters/kit/linspace.h"
#include "converters/kit/reduction.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

constexpr int64_t kMostComparisons = int64_t{1} << 28;

Expr length(Rewriter& r, ValueId v) { return r.graph().value(v).shape.at(0); }

ValueId slice(Rewriter& r, ValueId x, const Expr& from, const Expr& to) {
  return r.add("aten::slice.Tensor",
               {tensor_arg("self", x), attr_arg("dim", Expr(0)), attr_arg("start", from),
                attr_arg("end", to), attr_arg("step", Expr(1))},
               DType::kF32, {to - from});
}

/// Coordinate `d` of points [count, dims].
ValueId column(Rewriter& r, ValueId points, int64_t d) {
  const Shape& shape = r.graph().value(points).shape;
  return r.add("aten::select.int",
               {tensor_arg("self", points), attr_arg("dim", Expr(1)), attr_arg("index", Expr(d))},
               DType::kF32, {shape.at(0)});
}

/// The numbers of argument `range`: low and high of each dimension; empty if it is left out.
std::vector<double> given_range(const NodeContext& c) {
  if (!c.node.has("range")) return {};
  const Attr& attr = c.node.arg("range").attr;
  if (const auto* reals = std::get_if<std::vector<double>>(&attr)) return *reals;
  std::vector<double> found;
  for (const int64_t v : c.node.integers("range")) found.push_back(static_cast<double>(v));
  return found;
}

/// Edges of `bins` bins from the least to the largest element, half a unit further where these are
/// equal.
ValueId edges_of(Rewriter& r, ValueId x, int64_t bins, double low, double high, bool given) {
  if (!given && length(r, x) != Expr(0)) {
    const ValueId least = add_reduce(r, x, {.kind = "min", .dims = {0}}, DType::kF32);
    const ValueId most = add_reduce(r, x, {.kind = "max", .dims = {0}}, DType::kF32);
    const ValueId alike = r.pointwise("eq", {least, most}, DType::kBool);
    const ValueId below = r.pointwise("sub", {least}, DType::kF32, {0.5});
    const ValueId above = r.pointwise("add", {most}, DType::kF32, {0.5});
    return linspace_of(r, r.pointwise("where", {alike, below, least}, DType::kF32),
                       r.pointwise("where", {alike, above, most}, DType::kF32), bins + 1);
  }
  if (!given) high = 1;
  const double apart = low == high ? 0.5 : 0;
  return linspace_of(r, float_number(r, low - apart), float_number(r, high + apart), bins + 1);
}

/// int32: the bin of each element; -1 outside. The last bin holds its upper edge.
ValueId bins_of(Rewriter& r, ValueId x, ValueId edges) {
  const Expr count = length(r, x), bins = length(r, edges) - 1;
  const ValueId after = r.add("aten::bucketize.Tensor",
                              {tensor_arg("self", x), tensor_arg("boundaries", edges),
                               attr_arg("out_int32", true), attr_arg("right", true)},
                              DType::kI32, {count});
  const auto last = static_cast<double>(*bins.constant() - 1);
  const ValueId bin = r.pointwise("minimum", {r.pointwise("sub", {after}, DType::kI32, {1.0})},
                                  DType::kI32, {last});
  const ValueId inside =
      r.pointwise("logical_and",
                  {r.pointwise("ge", {x, slice(r, edges, 0, 1)}, DType::kBool),
                   r.pointwise("le", {x, slice(r, edges, bins, bins + 1)}, DType::kBool)},
                  DType::kBool);
  const ValueId outside = r.pointwise("logical_not", {inside}, DType::kBool);
  return r.pointwise("masked_fill", {bin, outside}, DType::kI32, {-1.0});
}

/// What each bin of the grid holds, flat: the points' columns and the edges along them.
ValueId counted(const NodeContext& c, Rewriter& r, const std::vector<ValueId>& columns,
                const std::vector<ValueId>& edges) {
  ValueId place = kNoValue, outside = kNoValue;
  int64_t total = 1;
  for (size_t d = columns.size(); d-- > 0;) {
    const ValueId bin = bins_of(r, columns[d], edges[d]);
    const ValueId out = r.pointwise("lt", {bin}, DType::kBool, {0.0});
    const ValueId part = r.pointwise("mul", {bin}, DType::kI32, {static_cast<double>(total)});
    place = place == kNoValue ? part : r.pointwise("add", {place, part}, DType::kI32);
    outside = outside == kNoValue ? out : r.pointwise("logical_or", {outside, out}, DType::kBool);
    total *= *length(r, edges[d]).constant() - 1;
  }
  place = r.pointwise("masked_fill", {place, outside}, DType::kI32, {-1.0});
  const Expr count = length(r, place);
  const ValueId numbers = r.add("tv::fill", {attr_arg("start", Expr(0)), attr_arg("step", Expr(1))},
                                DType::kI32, {Expr(total)});
  ValueId hits = r.pointwise(
      "eq", {r.reshape(place, {1, count}), r.reshape(numbers, {Expr(total), 1})}, DType::kBool);
  if (c.node.has("weight")) {
    const ValueId weight = r.reshape(c.node.input("weight"), {1, count});
    hits = r.pointwise("where", {hits, weight, float_number(r, 0)}, DType::kF32);
  }
  return add_reduce(r, hits, {.kind = "sum", .dims = {1}}, DType::kF32);
}

/// The counts as a grid; with `density`, their integral is 1.
ValueId histogram(const NodeContext& c, Rewriter& r, const std::vector<ValueId>& columns,
                  const std::vector<ValueId>& edges) {
  ValueId result = counted(c, r, columns, edges);
  Shape grid;
  for (const ValueId e : edges) grid.push_back(length(r, e) - 1);
  const bool density = c.node.flag("density");
  if (density) {
    const ValueId sum = add_reduce(r, result, {.kind = "sum", .dims = {0}}, DType::kF32);
    result = r.pointwise("div", {result, sum}, DType::kF32);
  }
  result = r.reshape(result, grid);
  for (size_t d = 0; density && d < edges.size(); ++d) {
    const ValueId width = r.pointwise(
        "sub", {slice(r, edges[d], 1, grid[d] + 1), slice(r, edges[d], 0, grid[d])}, DType::kF32);
    Shape wide(grid.size(), Expr(1));
    wide[d] = grid[d];
    result = r.pointwise("div", {result, r.reshape(width, wide)}, DType::kF32);
  }
  return result;
}

void by_number(const NodeContext& c, Rewriter& r) {
  const ValueId x = r.reshape(c.node.input("self"), {product(c.shape("self"))});
  const std::vector<double> range = given_range(c);
  const ValueId edges = edges_of(r, x, c.node.integer("bins"), range.empty() ? 0 : range[0],
                                 range.empty() ? 0 : range[1], !range.empty());
  r.replace(0, histogram(c, r, {x}, {edges}));
  r.replace(1, edges);
}

void by_edges(const NodeContext& c, Rewriter& r) {
  const ValueId x = r.reshape(c.node.input("self"), {product(c.shape("self"))});
  r.replace(0, histogram(c, r, {x}, {c.node.input("bins")}));
  r.replace(1, c.node.input("bins"));
}

std::vector<ValueId> columns_of(const NodeContext& c, Rewriter& r) {
  const Shape& shape = c.shape("self");
  const Expr count = product_of(shape, 0, shape.size() - 1);
  const ValueId points = r.reshape(c.node.input("self"), {count, shape.back()});
  std::vector<ValueId> columns;
  for (int64_t d = 0; d < *shape.back().constant(); ++d) columns.push_back(column(r, points, d));
  return columns;
}

std::vector<ValueId> grid_edges(const NodeContext& c, Rewriter& r,
                                const std::vector<ValueId>& columns) {
  const std::vector<double> range = given_range(c);
  const std::vector<int64_t> bins = c.node.integers("bins");
  std::vector<ValueId> edges;
  for (size_t d = 0; d < columns.size(); ++d) {
    edges.push_back(edges_of(r, columns[d], bins.at(d), range.empty() ? 0 : range.at(2 * d),
                             range.empty() ? 0 : range.at(2 * d + 1), !range.empty()));
  }
  return edges;
}

void edges_alone(const NodeContext& c, Rewriter& r) {
  const std::vector<ValueId> edges = grid_edges(c, r, columns_of(c, r));
  for (size_t d = 0; d < edges.size(); ++d) r.replace(d, edges[d]);
}

void grid_by_numbers(const NodeContext& c, Rewriter& r) {
  const std::vector<ValueId> columns = columns_of(c, r);
  r.replace(0, histogram(c, r, columns, grid_edges(c, r, columns)));
}

void grid_by_edges(const NodeContext& c, Rewriter& r) {
  r.replace(0, histogram(c, r, columns_of(c, r), c.node.inputs("bins")));
}

std::string unsupported(const NodeContext& c) {
  const std::string at = "[" + c.node.op + "] ";
  if (c.dtype("self") != DType::kF32) return at + "of another type than float32";
  for (const ValueId v : c.node.all_inputs()) {
    for (const Expr& dim : c.graph.value(v).shape) {
      if (!dim.is_constant()) return at + "needs fixed sizes";
    }
  }
  if (c.node.op == "aten::_histogramdd_bin_edges") return "";
  const Expr bins = product(c.output().shape);
  if (bins.is_constant() && *bins.constant() > 0 &&
      *product(c.shape("self")).constant() * *bins.constant() <= kMostComparisons) {
    return "";
  }
  return at + "of more than " + std::to_string(kMostComparisons) +
         " comparisons of elements with bins";
}

void histogram_types(NodeTypes& t) {
  if (t.has("weight")) t.equal(t.shape("weight"), t.shape("self"), "argument 'weight'");
  const bool tensor = t.node().arg("bins").is_tensor;
  if (tensor) t.want(t.rank("bins") == 1, "argument 'bins' is not of rank 1");
  const Expr edges = tensor ? t.shape("bins")[0] : t.node().expr("bins") + 1;
  t.at_least(edges, tensor ? 1 : 2, "the number of edges");
  t.gives({edges - 1}, 0);
  t.gives({edges}, 1);
}

/// histogramdd: points of as many coordinates as there are lists of edges.
void types_of_points(NodeTypes& t) {
  const Shape shape = t.shape("self");
  t.want(shape.size() >= 2, "wants two dimensions");
  Shape counts;
  if (t.node().arg("bins").is_tensor) {
    for (const Shape& edges : t.shapes("bins")) {
      t.want(edges.size() == 1, "the edges are not of rank 1");
      t.at_least(edges[0], 1, "the number of edges");
      counts.push_back(edges[0] - 1);
    }
  } else {
    counts = t.node().exprs("bins");
    t.positive(counts, "argument 'bins'");
  }
  t.equal(shape.back(), static_cast<int64_t>(counts.size()), "the number of coordinates");
  if (t.has("range")) {
    const auto* range = std::get_if<std::vector<double>>(&t.node().arg("range").attr);
    t.want(range == nullptr || range->empty() || range->size() == 2 * counts.size(),
           "wants two ends for each coordinate");
  }
  if (t.has("weight")) {
    t.equal(t.shape("weight"), Shape(shape.begin(), shape.end() - 1), "argument 'weight'");
  }
  if (!t.node().op.ends_with("bin_edges")) return t.gives(counts);
  t.want(t.results() == counts.size(), "has another number of results than of coordinates");
  for (size_t i = 0; i < counts.size(); ++i) t.gives({counts[i] + 1}, i);
}

Converter entry(std::string op, std::function<void(const NodeContext&, Rewriter&)> expand) {
  return {.op = "aten::" + op,
          .unsupported = unsupported,
          .expand = std::move(expand),
          .notes = "edges between infinite elements are NaN where PyTorch raises an error"};
}

const RegisterConverter histograms{
    typed(entry("histogram.bin_ct", by_number), histogram_types),
    typed(entry("histogram.bins_tensor", by_edges), histogram_types),
    typed(entry("_histogramdd_bin_edges", edges_alone), types_of_points),
    typed(entry("_histogramdd_from_bin_cts", grid_by_numbers), types_of_points),
    typed(entry("_histogramdd_from_bin_tensors", grid_by_edges), types_of_points)};

}  // namespace
}  // namespace tv

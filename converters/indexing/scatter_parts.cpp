// Operators that write elements chosen by a mask, by flat indices or along a diagonal, in terms of
// others: masked_scatter, put, diagonal_scatter, as_strided_scatter.

#include <algorithm>

#include "converters/indexing/indexing_types.h"
#include "converters/kit/steps.h"
#include "converters/kit/view_types.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

ValueId range(Rewriter& r, const Expr& count) {
  return r.add("aten::arange.start_step",
               {attr_arg("start", Expr(0)), attr_arg("end", count), attr_arg("step", Expr(1)),
                attr_arg("dtype", DType::kI32)},
               DType::kI32, {count});
}

ValueId expanded(Rewriter& r, ValueId value, const Shape& shape) {
  const DType dtype = r.graph().value(value).dtype;
  if (r.graph().value(value).shape == shape) return value;
  return r.add("aten::expand", {tensor_arg("self", value), attr_arg("size", shape)}, dtype, shape);
}

ValueId flat(Rewriter& r, ValueId value) {
  const Expr count = product(r.graph().value(value).shape);
  return r.reshape(value, {count});
}

std::string empty_source(const NodeContext& c) {
  if (product(c.shape("source")).bounds(c.graph.symbols).first >= 1) return "";
  return "[" + c.node.op + "] the source may be empty";
}

/// The k-th element that the mask chooses is the source's k-th: a running count says which.
void masked_scatter(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.output().shape;
  const DType dtype = c.output().dtype;
  const ValueId mask = expanded(r, c.node.input("mask"), shape);
  const ValueId chosen = r.cast(flat(r, mask), DType::kI32);
  const Expr count = product(shape);
  const ValueId counted =
      r.add("aten::cumsum",
            {tensor_arg("self", chosen), attr_arg("dim", Expr(0)), attr_arg("dtype", DType::kI32)},
            DType::kI32, {count});
  const ValueId index =
      r.add("aten::sub.Scalar",
            {tensor_arg("self", counted), attr_arg("other", Expr(1)), attr_arg("alpha", Expr(1))},
            DType::kI32, {count});
  // Where nothing is chosen, any; else there must be so many in the source.
  const ValueId first = r.add(
      "aten::full", {attr_arg("size", Shape{}), attr_arg("fill_value", Expr(0))}, DType::kI32, {});
  const ValueId place = r.pointwise("where", {flat(r, mask), index, first}, DType::kI32);
  const ValueId taken = r.add("aten::gather",
                              {tensor_arg("self", flat(r, c.node.input("source"))),
                               attr_arg("dim", Expr(0)), tensor_arg("index", place)},
                              dtype, {count});
  r.replace(0, r.pointwise("where", {mask, r.reshape(taken, shape), c.node.input("self")}, dtype));
}

void put(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.shape("self");
  if (product(shape) == Expr(0)) {
    r.replace(0, c.node.input("self"));
    return;
  }
  const ValueId self = flat(r, c.node.input("self"));
  const ValueId placed =
      r.add("aten::index_put",
            {tensor_arg("self", self), tensor_list_arg("indices", {flat(r, c.node.input("index"))}),
             tensor_arg("values", flat(r, c.node.input("source"))),
             attr_arg("accumulate", c.node.flag("accumulate"))},
            c.output().dtype, {product(shape)});
  r.replace(0, r.reshape(placed, shape));
}

std::string nowhere_to_put(const NodeContext& c) {
  const Expr count = product(c.shape("self"));
  if (count == Expr(0) || count.bounds(c.graph.symbols).first >= 1) return "";
  return "[" + c.node.op + "] self may be empty";
}

std::string put_unsupported(const NodeContext& c) {
  const bool casts = c.value("source").dtype != c.value("self").dtype;
  return casts ? "PyTorch wants a source of self's type" : nowhere_to_put(c);
}

/// Where row + offset = column the value is the diagonal's, which stands along the shorter side.
void diagonal_scatter(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.shape("self");
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t offset = c.node.integer("offset");
  const int64_t rows = c.wrap(c.node.integer("dim1"), rank);
  const int64_t columns = c.wrap(c.node.integer("dim2"), rank);
  const DType dtype = c.output().dtype;
  const auto along = [&](ValueId value, int64_t dim) {
    Shape wide(shape.size(), Expr(1));
    wide.at(dim) = shape.at(dim);
    return r.reshape(value, wide);
  };
  const ValueId row = r.add("aten::add.Scalar",
                            {tensor_arg("self", range(r, shape.at(rows))),
                             attr_arg("other", Expr(offset)), attr_arg("alpha", Expr(1))},
                            DType::kI32, {shape.at(rows)});
  const ValueId on = r.pointwise(
      "eq", {along(row, rows), along(range(r, shape.at(columns)), columns)}, DType::kBool);
  // The diagonal's k-th element stands in row k where offset >= 0, else in column k.
  const int64_t kept = offset >= 0 ? rows : columns;
  Shape padded = c.shape("src");
  const Expr missing = shape.at(kept) - padded.back();
  padded.back() = shape.at(kept);
  const ValueId source =
      r.add("aten::constant_pad_nd",
            {tensor_arg("self", r.cast(c.node.input("src"), dtype)),
             attr_arg("pad", std::vector<Expr>{0, missing}), attr_arg("value", Expr(0))},
            dtype, padded);
  // Its last dimension goes where `kept` is, the other one becomes 1.
  std::vector<int64_t> order;
  Shape wide;
  int64_t next = 0;
  for (int64_t d = 0; d < rank; ++d) {
    wide.push_back(d == kept ? shape.at(d) : d == rows || d == columns ? Expr(1) : shape.at(d));
    if (d == kept) {
      order.push_back(rank - 2);
    } else if (d != rows && d != columns) {
      order.push_back(next++);
    }
  }
  const ValueId spread = r.reshape(r.permute(source, order), wide);
  r.replace(0, r.pointwise("where", {on, spread, c.node.input("self")}, dtype));
}

// --- as_strided_scatter, of a dense tensor ---

/// What as_strided shows of it.
struct Part {
  Shape size, strides;
  Expr offset;
};

Part part_of(const NodeContext& c) {
  return {c.node.exprs("size"), c.node.exprs("stride"),
          c.node.has("storage_offset") ? c.node.expr("storage_offset") : Expr(0)};
}

/// Dimensions of more than one element from the outermost in memory to the innermost, where each
/// stride is known and spans all that lies within: no two elements share a place. Else nothing.
std::optional<std::vector<size_t>> apart(const Part& part) {
  if (!part.offset.constant()) return std::nullopt;
  std::vector<size_t> order;
  for (size_t d = 0; d < part.size.size(); ++d) {
    if (!part.size[d].constant() || !part.strides[d].constant()) return std::nullopt;
    if (*part.size[d].constant() != 1) order.push_back(d);
  }
  const auto stride = [&](size_t d) { return *part.strides[d].constant(); };
  std::ranges::sort(order, [&](size_t a, size_t b) { return stride(a) > stride(b); });
  int64_t span = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (stride(order[i]) < span) return std::nullopt;
    span += (*part.size[order[i]].constant() - 1) * stride(order[i]);
  }
  return order;
}

/// The dimensions' order in memory where the part is the whole tensor; else nothing.
std::vector<int64_t> order_of_whole(const NodeContext& c, const Part& part) {
  if (part.offset != Expr(0) || product(part.size) != product(c.shape("self"))) return {};
  return dense_order(part.size, part.strides);
}

/// Each element of the result finds its place in the part, if it has one.
ValueId scatter_apart(const NodeContext& c, Rewriter& r, ValueId source, const Part& part,
                      const std::vector<size_t>& order) {
  const Expr count = product(c.output().shape);
  const auto of = [&](const char* function, ValueId value, int64_t number, DType dtype) {
    return r.pointwise(function, {value}, dtype, {static_cast<double>(number)});
  };
  ValueId rest = of("sub", range(r, count), *part.offset.constant(), DType::kI32);
  ValueId inside = of("ge", rest, 0, DType::kBool);
  const ValueId zero = r.add(
      "aten::full", {attr_arg("size", Shape{}), attr_arg("fill_value", Expr(0))}, DType::kI32, {});
  ValueId from = zero;
  const auto require = [&](ValueId holds) {
    inside = r.pointwise("logical_and", {inside, holds}, DType::kBool);
  };
  const Shape source_strides = contiguous_strides(part.size);
  for (const size_t d : order) {
    const int64_t stride = *part.strides[d].constant();
    const ValueId at = of("div_trunc", rest, stride, DType::kI32);
    require(of("lt", at, *part.size[d].constant(), DType::kBool));
    rest = of("fmod", rest, stride, DType::kI32);
    const ValueId step = of("mul", at, *source_strides[d].constant(), DType::kI32);
    from = r.pointwise("add", {from, step}, DType::kI32);
  }
  require(of("eq", rest, 0, DType::kBool));
  const ValueId taken =
      r.add("aten::gather",
            {tensor_arg("self", flat(r, source)), attr_arg("dim", Expr(0)),
             tensor_arg("index", r.pointwise("where", {inside, from, zero}, DType::kI32)),
             attr_arg("sparse_grad", false)},
            c.output().dtype, {count});
  return r.pointwise("where", {inside, taken, flat(r, c.node.input("self"))}, c.output().dtype);
}

/// The element at each place is written by its flat index; of several the last wins.
ValueId scatter_together(const NodeContext& c, Rewriter& r, ValueId source, const Part& part) {
  ValueId index = kNoValue;
  for (size_t d = 0; d < part.size.size(); ++d) {
    Shape wide(part.size.size(), Expr(1));
    wide[d] = part.size[d];
    const ValueId steps =
        r.add("aten::mul.Scalar",
              {tensor_arg("self", range(r, part.size[d])), attr_arg("other", part.strides.at(d))},
              DType::kI32, {part.size[d]});
    const ValueId along = r.reshape(steps, wide);
    index = index == kNoValue ? along : r.pointwise("add", {index, along}, DType::kI32);
  }
  if (part.size.empty()) index = range(r, 1);
  const Shape broad = r.graph().value(index).shape;
  index =
      r.add("aten::add.Scalar",
            {tensor_arg("self", index), attr_arg("other", part.offset), attr_arg("alpha", Expr(1))},
            DType::kI32, broad);
  return r.add("aten::index_put",
               {tensor_arg("self", flat(r, c.node.input("self"))),
                tensor_list_arg("indices", {flat(r, index)}), tensor_arg("values", flat(r, source)),
                attr_arg("accumulate", false)},
               c.output().dtype, {product(c.shape("self"))});
}

void as_strided_scatter(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.shape("self");
  const Part part = part_of(c);
  const ValueId source = r.cast(c.node.input("src"), c.output().dtype);
  if (product(part.size) == Expr(0)) {
    r.replace(0, c.node.input("self"));
  } else if (const auto whole = order_of_whole(c, part); !whole.empty()) {
    r.replace(0, r.reshape(r.permute(source, whole), shape));
  } else if (const auto order = apart(part)) {
    r.replace(0, r.reshape(scatter_apart(c, r, source, part, *order), shape));
  } else {
    r.replace(0, r.reshape(scatter_together(c, r, source, part), shape));
  }
}

const RegisterConverter parts{
    {.op = "aten::masked_scatter",
     .unsupported = empty_source,
     .expand = masked_scatter,
     .types = types::masked_scatter},
    {.op = "aten::put", .unsupported = put_unsupported, .expand = put, .types = types::put},
    {.op = "aten::diagonal_scatter", .expand = diagonal_scatter, .types = types::diagonal_put()},
    {.op = "aten::as_strided_scatter",
     .unsupported = nowhere_to_put,
     .expand = as_strided_scatter,
     .reads_storage = true,
     .types = types::strided_put,
     .notes = "where places overlap the last wins"},
};

}  // namespace
}  // namespace tv

// Sliding windows, as_strided, and copies of views.

#include "converters/kit/steps.h"
#include "converters/kit/view_types.h"

namespace tv {
namespace {

/// Windows of `size` elements, `step` apart, as a new last dimension.
std::optional<View> unfold(const NodeContext& c, const View& in, size_t) {
  const auto rank = static_cast<int64_t>(in.strides.size());
  const Expr step = c.node.expr("step");
  if (rank == 0) return View{in.base, in.offset, {Expr(1)}};
  const int64_t dim = c.wrap(c.node.integer("dimension"), rank);
  View out = in;
  out.strides.push_back(in.strides.at(dim));
  out.strides.at(dim) = in.strides.at(dim) * step;
  return out;
}

/// Of a tensor that is all of its storage (the importer asks): any places of it.
std::optional<View> as_strided(const NodeContext& c, const View& in, size_t) {
  if (!(in.strides == contiguous_strides(c.shape("self")))) return std::nullopt;
  const Expr first = c.node.has("storage_offset") ? c.node.expr("storage_offset") : Expr(0);
  return View{in.base, in.offset + first, c.node.exprs("stride")};
}

void unfold_copy(const NodeContext& c, Rewriter& r) {
  r.replace(0, r.add("aten::unfold", c.node.args, c.output().dtype, c.output().shape));
}

void as_strided_copy(const NodeContext& c, Rewriter& r) {
  r.replace(0, r.add("aten::as_strided", c.node.args, c.output().dtype, c.output().shape));
}

void narrow_copy(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.shape("self");
  const int64_t dim = c.wrap(c.node.integer("dim"), static_cast<int64_t>(shape.size()));
  Expr start = c.node.expr("start");
  if (start.constant() && *start.constant() < 0) start = start + shape.at(dim);
  r.replace(0, r.add("aten::slice.Tensor",
                     {tensor_arg("self", c.node.input("self")), attr_arg("dim", Expr(dim)),
                      attr_arg("start", start), attr_arg("end", start + c.node.expr("length")),
                      attr_arg("step", Expr(1))},
                     c.output().dtype, c.output().shape));
}

void unbind_copy(const NodeContext& c, Rewriter& r) {
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    if (c.node.outputs[i] == kNoValue) continue;
    const Value out = c.graph.value(c.node.outputs.at(i));
    r.replace(
        i, r.add("aten::select.int",
                 {tensor_arg("self", c.node.input("self")), attr_arg("dim", c.node.arg("dim").attr),
                  attr_arg("index", Expr(static_cast<int64_t>(i)))},
                 out.dtype, out.shape));
  }
}

const RegisterConverter copies{
    {.op = "aten::as_strided",
     .view = as_strided,
     .moves = Moves::kPicks,
     .is_compute = false,
     .reads_storage = true,
     .types = types::strided_view},
    {.op = "aten::unfold",
     .view = unfold,
     .moves = Moves::kPicks,
     .is_compute = false,
     .types = types::unfolded},
    {.op = "aten::unfold_copy",
     .expand = unfold_copy,
     .moves = Moves::kPicks,
     .types = types::unfolded},
    {.op = "aten::as_strided_copy",
     .expand = as_strided_copy,
     .moves = Moves::kPicks,
     .reads_storage = true,
     .types = types::strided_view},
    {.op = "aten::narrow_copy",
     .expand = narrow_copy,
     .moves = Moves::kCuts,
     .types = types::narrowed},
    {.op = "aten::unbind_copy.int",
     .expand = unbind_copy,
     .moves = Moves::kParts,
     .types = types::unbound},
};

}  // namespace
}  // namespace tv

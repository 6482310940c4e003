// Views of a part: slice, select, narrow, and the operators that cut a tensor into several.

#include "converters/kit/view_strides.h"
#include "converters/kit/view_types.h"

namespace tv {
namespace {

int64_t dim_of(const NodeContext& c) { return c.wrap(c.node.integer("dim"), c.rank("self")); }

View shifted(const View& in, int64_t dim, const Expr& start) {
  View out = in;
  out.offset += in.strides.at(dim) * start;
  return out;
}

View without_dim(View view, int64_t dim) {
  view.strides.erase(view.strides.begin() + dim);
  return view;
}

std::optional<Expr> slice_start(const NodeContext& c) {
  if (!c.node.has("start")) return Expr(0);
  return slice_bound(c.node.expr("start"), c.shape("self")[dim_of(c)], c.graph);
}

std::string slice_unsupported(const NodeContext& c) {
  const auto step = c.node.has("step") ? c.node.expr("step").constant() : 1;
  if (!step) return "[" + c.node.op + "] the step depends on a dynamic dimension";
  if (!slice_start(c)) {
    return "[" + c.node.op +
           "] the start may be negative or positive: " + c.node.expr("start").str();
  }
  return "";
}

std::optional<View> slice(const NodeContext& c, const View& in, size_t) {
  const int64_t dim = dim_of(c);
  View out = shifted(in, dim, slice_start(c).value());
  if (c.node.has("step")) out.strides[dim] = in.strides[dim] * c.node.integer("step");
  return out;
}

std::string index_unsupported(const NodeContext& c, const char* arg) {
  const Expr index = c.node.expr(arg);
  if (from_front(index, c.shape("self")[dim_of(c)], c.graph)) return "";
  return "[" + c.node.op + "] the index may be negative or positive: " + index.str();
}

std::optional<View> select(const NodeContext& c, const View& in, size_t) {
  const int64_t dim = dim_of(c);
  const Expr index = from_front(c.node.expr("index"), c.shape("self")[dim], c.graph).value();
  return without_dim(shifted(in, dim, index), dim);
}

std::optional<View> narrow(const NodeContext& c, const View& in, size_t) {
  const int64_t dim = dim_of(c);
  return shifted(in, dim, from_front(c.node.expr("start"), c.shape("self")[dim], c.graph).value());
}

std::optional<View> unbind(const NodeContext& c, const View& in, size_t output) {
  const int64_t dim = dim_of(c);
  return without_dim(shifted(in, dim, static_cast<int64_t>(output)), dim);
}

std::optional<View> split(const NodeContext& c, const View& in, size_t output) {
  return shifted(in, dim_of(c), c.node.expr("split_size") * static_cast<int64_t>(output));
}

std::optional<View> split_with_sizes(const NodeContext& c, const View& in, size_t output) {
  const char* arg = c.node.has("split_sizes") ? "split_sizes" : "split_size";
  const std::vector<Expr> sizes = c.node.exprs(arg);
  Expr start = 0;
  for (size_t i = 0; i < output; ++i) start += sizes.at(i);
  return shifted(in, dim_of(c), start);
}

std::optional<View> chunk(const NodeContext& c, const View& in, size_t output) {
  const int64_t dim = dim_of(c);
  const Expr size = ceil_div(c.shape("self")[dim], c.node.integer("chunks"));
  return shifted(in, dim, size * static_cast<int64_t>(output));
}

Converter part(std::string op, Moves moves, TypeRule types, decltype(Converter::view) view,
               decltype(Converter::unsupported) unsupported = nullptr) {
  return {.op = std::move(op),
          .unsupported = std::move(unsupported),
          .view = std::move(view),
          .moves = moves,
          .is_compute = false,
          .types = std::move(types)};
}

const RegisterConverter parts{
    part("aten::slice.Tensor", Moves::kCuts, types::slice, slice, slice_unsupported),
    part("aten::slice_copy.Tensor", Moves::kCuts, types::slice, slice, slice_unsupported),
    part("aten::select.int", Moves::kCuts, types::selected, select,
         [](const NodeContext& c) { return index_unsupported(c, "index"); }),
    part("aten::select_copy.int", Moves::kCuts, types::selected, select,
         [](const NodeContext& c) { return index_unsupported(c, "index"); }),
    part("aten::narrow", Moves::kCuts, types::narrowed, narrow,
         [](const NodeContext& c) { return index_unsupported(c, "start"); }),
    part("aten::unbind.int", Moves::kParts, types::unbound, unbind),
    part("aten::split.Tensor", Moves::kParts, types::split, split),
    part("aten::split_with_sizes", Moves::kParts, types::split_by_sizes, split_with_sizes),
    part("aten::split.sizes", Moves::kParts, types::split_by_sizes, split_with_sizes),
    part("aten::chunk", Moves::kParts, types::chunk, chunk),
};

}  // namespace
}  // namespace tv

// Views that reorder, split off or add dimensions: the result names elements of its input's
// storage, and no kernel runs unless a consumer needs the elements packed.

#include "converters/kit/shape_types.h"
#include "converters/kit/view_strides.h"
#include "converters/kit/view_types.h"

namespace tv {
namespace {

using ViewFunction = decltype(Converter::view);

Converter view_converter(std::string op, ViewFunction view, Moves moves, TypeRule types) {
  return {.op = std::move(op),
          .view = std::move(view),
          .moves = moves,
          .is_compute = false,
          .types = std::move(types)};
}

const Shape& input_shape(const NodeContext& c) {
  for (const Arg& a : c.node.args) {
    if (a.is_tensor && !a.values.empty()) return c.graph.value(a.values[0]).shape;
  }
  throw Error(ErrorKind::kInternal, "[" + c.node.op + "] has no tensor argument");
}

std::optional<View> identity(const NodeContext&, const View& in, size_t) { return in; }

std::optional<View> reshape(const NodeContext& c, const View& in, size_t) {
  const auto strides = reshaped_strides(input_shape(c), in.strides, c.output().shape);
  if (!strides) return std::nullopt;
  return View{in.base, in.offset, *strides};
}

std::optional<View> permuted(const View& in, const std::vector<int64_t>& dims) {
  View out{in.base, in.offset, {}};
  for (const int64_t d : dims) out.strides.push_back(in.strides.at(d));
  return out;
}

std::optional<View> permute(const NodeContext& c, const View& in, size_t) {
  std::vector<int64_t> dims = c.node.integers("dims");
  for (int64_t& d : dims) d = c.wrap(d, static_cast<int64_t>(in.strides.size()));
  return permuted(in, dims);
}

std::optional<View> swapped(const View& in, int64_t a, int64_t b) {
  View out = in;
  std::swap(out.strides.at(a), out.strides.at(b));
  return out;
}

std::optional<View> transpose(const NodeContext& c, const View& in, size_t) {
  const auto rank = static_cast<int64_t>(in.strides.size());
  if (rank == 0) return in;
  const bool axes = c.node.find("axis0") != nullptr;  // as numpy calls them
  const int64_t a = c.node.integer(axes ? "axis0" : "dim0");
  return swapped(in, c.wrap(a, rank), c.wrap(c.node.integer(axes ? "axis1" : "dim1"), rank));
}

std::optional<View> transpose_last(const NodeContext&, const View& in, size_t) {
  const auto rank = static_cast<int64_t>(in.strides.size());
  return rank < 2 ? in : *swapped(in, rank - 2, rank - 1);
}

std::optional<View> reverse_dims(const NodeContext&, const View& in, size_t) {
  return View{in.base, in.offset, Shape(in.strides.rbegin(), in.strides.rend())};
}

std::optional<View> expand(const NodeContext& c, const View& in, size_t) {
  const Shape& from = input_shape(c);
  const Shape& to = c.output().shape;
  View out{in.base, in.offset, Shape(to.size(), Expr(0))};
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    const bool spread = from[i] == Expr(1) && !(to[lead + i] == Expr(1));
    if (!spread) out.strides[lead + i] = in.strides[i];
  }
  return out;
}

std::optional<View> unsqueeze(const NodeContext& c, const View& in, size_t) {
  const auto rank = static_cast<int64_t>(in.strides.size());
  const int64_t dim = c.wrap(c.node.integer("dim"), rank + 1);
  const Expr stride = dim < rank ? in.strides[dim] * input_shape(c)[dim] : Expr(1);
  View out = in;
  out.strides.insert(out.strides.begin() + dim, stride);
  return out;
}

std::optional<View> squeeze(const NodeContext& c, const View& in, size_t) {
  const Shape& shape = input_shape(c);
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<bool> candidate(shape.size(), !c.node.has("dim"));
  if (c.node.has("dim") && rank > 0) {
    for (const int64_t d : c.node.integers("dim")) candidate[c.wrap(d, rank)] = true;
  }
  View out{in.base, in.offset, {}};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!(candidate[i] && shape[i] == Expr(1))) out.strides.push_back(in.strides[i]);
  }
  return out;
}

std::optional<View> diagonal(const NodeContext& c, const View& in, size_t) {
  const auto rank = static_cast<int64_t>(in.strides.size());
  const int64_t shift = c.node.integer("offset");
  const int64_t d1 = c.wrap(c.node.integer("dim1"), rank);
  const int64_t d2 = c.wrap(c.node.integer("dim2"), rank);
  View out{in.base, in.offset, {}};
  out.offset += shift >= 0 ? in.strides[d2] * shift : in.strides[d1] * -shift;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != d1 && i != d2) out.strides.push_back(in.strides[i]);
  }
  out.strides.push_back(in.strides[d1] + in.strides[d2]);
  return out;
}

const RegisterConverter views{
    view_converter("aten::view", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::reshape", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::_unsafe_view", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::_reshape_alias", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::view_copy", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::view_as", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::reshape_as", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::flatten.using_ints", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::unflatten.int", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::ravel", reshape, Moves::kReshapes, types::reshaped),
    view_converter("aten::permute", permute, Moves::kPermutes, types::permuted),
    view_converter("aten::permute_copy", permute, Moves::kPermutes, types::permuted),
    view_converter("aten::transpose.int", transpose, Moves::kPermutes, types::swapped),
    view_converter("aten::swapaxes", transpose, Moves::kPermutes, types::swapped),
    view_converter("aten::t", transpose_last, Moves::kPermutes, types::last_swapped),
    view_converter("aten::mT", transpose_last, Moves::kPermutes, types::last_swapped),
    view_converter("aten::numpy_T", reverse_dims, Moves::kPermutes, types::reversed),
    view_converter("aten::expand", expand, Moves::kSpreads, types::expanded),
    view_converter("aten::expand_copy", expand, Moves::kSpreads, types::expanded),
    view_converter("aten::expand_as", expand, Moves::kSpreads, types::expanded),
    view_converter("aten::broadcast_to", expand, Moves::kSpreads, types::expanded),
    view_converter("aten::unsqueeze", unsqueeze, Moves::kReshapes, types::unsqueezed),
    view_converter("aten::squeeze", squeeze, Moves::kReshapes, types::squeezed),
    view_converter("aten::squeeze.dim", squeeze, Moves::kReshapes, types::squeezed),
    view_converter("aten::squeeze.dims", squeeze, Moves::kReshapes, types::squeezed),
    view_converter("aten::diagonal", diagonal, Moves::kPicks, types::diagonal),
    view_converter("aten::diagonal_copy", diagonal, Moves::kPicks, types::diagonal),
    // Values in an engine are never written twice, so a clone may share its input's storage. An
    // engine's output always gets storage of its own.
    view_converter("aten::alias", identity, Moves::kCopies, types::kSame),
    view_converter("aten::detach", identity, Moves::kCopies, types::kSame),
    view_converter("aten::clone", identity, Moves::kCopies, types::kSame),
    view_converter("aten::contiguous", identity, Moves::kCopies, types::kSame),
    view_converter("aten::lift_fresh", identity, Moves::kCopies, types::kSame),
    view_converter("aten::lift_fresh_copy", identity, Moves::kCopies, types::kSame),
};

}  // namespace
}  // namespace tv

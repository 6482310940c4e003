#include "csrc/frontends/onnx/kit/attend.h"

#include <cmath>

namespace tv::onnx {

Expr dim_of(const Tensor& x, int64_t d) {
  return x.shape.at(static_cast<size_t>(d < 0 ? d + x.rank() : d));
}

Tensor heads_of(Emitter& e, const Tensor& x, int64_t heads) {
  if (x.rank() == 4) return x;
  const auto width = x.rank() == 3 ? dim_of(x, 2).constant() : std::nullopt;
  if (!width || heads < 1 || *width % heads != 0) {
    throw Error(ErrorKind::kUser, "want rank 4, or rank 3 and a number of heads that divides it");
  }
  return e.permute(e.reshape(x, {dim_of(x, 0), dim_of(x, 1), heads, *width / heads}), {0, 2, 1, 3});
}

Tensor joined_heads(Emitter& e, const Tensor& x) {
  const Expr width = dim_of(x, 1) * dim_of(x, 3);
  return e.reshape(e.permute(x, {0, 2, 1, 3}), {dim_of(x, 0), dim_of(x, 2), width});
}

Tensor repeated_heads(Emitter& e, const Tensor& x, const Expr& heads) {
  const auto own = dim_of(x, 1).constant(), wanted = heads.constant();
  if (!own || !wanted || *own < 1 || *wanted % *own != 0) {
    throw Error(ErrorKind::kUser, "the numbers of heads do not divide");
  }
  if (*own == *wanted) return x;
  const Expr copies = *wanted / *own;
  const Tensor spread =
      e.expand(e.unsqueeze(x, 2), {dim_of(x, 0), *own, copies, dim_of(x, 2), dim_of(x, 3)});
  return e.reshape(spread, {dim_of(x, 0), heads, dim_of(x, 2), dim_of(x, 3)});
}

Tensor softmax_of_visible(Emitter& e, const Tensor& scores) {
  const int64_t last = scores.rank() - 1;
  const Tensor hidden = e.with("eq", e.reduce("amax", scores, {last}, true), -HUGE_VAL);
  return e.where(hidden, e.number(scores.dtype, 0), e.softmax(scores, last));
}

Tensor bias_where(Emitter& e, const Tensor& seen, DType dtype, double hidden) {
  return e.where(seen, e.number(dtype, 0), e.number(dtype, hidden));
}

Tensor size_tensor(Emitter& e, const Expr& size) {
  Host host{.dtype = DType::kI64};
  host.ints = {size};
  return e.from_host(std::move(host));
}

Tensor places(Emitter& e, const Expr& count, int64_t at, int64_t rank) {
  Shape shape(static_cast<size_t>(rank), Expr(1));
  shape.at(static_cast<size_t>(at)) = count;
  return e.reshape(e.arange(count, DType::kI64), shape);
}

namespace {

/// One operator of ATen's, which gives zeros for rows without a visible key, too.
Tensor at_once(Emitter& e, const Attend& a) {
  const auto heads = dim_of(a.q, 1).constant(), own = dim_of(a.k, 1).constant();
  if (!heads || !own || *own < 1 || *heads % *own != 0 || !(dim_of(a.v, 1) == Expr(*own))) {
    throw Error(ErrorKind::kUser, "the numbers of heads do not divide");
  }
  Shape shape = a.q.shape;
  shape[3] = dim_of(a.v, 3);
  return e.node(
      "aten::scaled_dot_product_attention",
      {e.arg("query", a.q), e.arg("key", a.k), e.arg("value", a.v), e.arg("attn_mask", a.bias),
       attr_arg("dropout_p", 0.0), attr_arg("is_causal", a.causal), attr_arg("scale", a.scale),
       attr_arg("enable_gqa", *heads != *own)},
      a.q.dtype, shape);
}

/// Step by step in float32: 16-bit operands are rounded once, at the end.
Tensor in_steps(Emitter& e, const Attend& a) {
  const DType wide = DType::kF32;
  const Expr heads = dim_of(a.q, 1), keys = dim_of(a.k, 2);
  const Tensor k = e.cast(repeated_heads(e, a.k, heads), wide);
  const Tensor v = e.cast(repeated_heads(e, a.v, heads), wide);
  const Tensor q = e.with("mul", e.cast(a.q, wide), a.scale);
  Tensor scores = e.matmul(q, e.transpose(k, 2, 3));
  if (a.softcap != 0) {
    scores = e.with("mul", e.unary("tanh", e.with("div", scores, a.softcap)), a.softcap);
  }
  if (a.causal) {
    const Tensor seen = e.compare("ge", places(e, dim_of(a.q, 2), 2, 4), places(e, keys, 3, 4));
    scores = e.add(scores, bias_where(e, seen, wide, -HUGE_VAL));
  }
  if (a.bias.present) scores = e.add(scores, e.cast(a.bias, wide));
  Tensor weights;
  if (a.sink.present) {
    const Tensor sink = e.reshape(e.cast(a.sink, wide), {1, heads, 1, 1});
    const Tensor column = e.expand(sink, {dim_of(a.q, 0), heads, dim_of(a.q, 2), 1});
    const Tensor all = e.softmax(e.cat({scores, column}, 3), 3);
    weights = e.slice(all, 3, 0, keys);
  } else {
    const bool masked = a.causal || a.bias.present;
    weights = masked ? softmax_of_visible(e, scores) : e.softmax(scores, 3);
  }
  return e.cast(e.matmul(weights, v), a.q.dtype);
}

}  // namespace

Tensor attended(Emitter& e, const Attend& a) {
  const bool same = a.k.dtype == a.q.dtype && a.v.dtype == a.q.dtype;
  return same && a.softcap == 0 && !a.sink.present ? at_once(e, a) : in_steps(e, a);
}

Tensor rotated(Emitter& e, const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t turned,
               bool interleaved) {
  const Expr size = dim_of(x, 3);
  const Tensor c = e.unsqueeze(cos, 2), s = e.unsqueeze(sin, 2);
  const Tensor head = e.slice(x, 3, 0, turned);
  const Tensor a = interleaved ? e.slice(head, 3, 0, turned, 2) : e.slice(head, 3, 0, turned / 2);
  const Tensor b =
      interleaved ? e.slice(head, 3, 1, turned, 2) : e.slice(head, 3, turned / 2, turned);
  const Tensor real = e.sub(e.mul(c, a), e.mul(s, b));
  const Tensor imaginary = e.add(e.mul(s, a), e.mul(c, b));
  const Tensor y = interleaved ? e.reshape(e.stack({real, imaginary}, 4), head.shape)
                               : e.cat({real, imaginary}, 3);
  return size == Expr(turned) ? y : e.cat({y, e.slice(x, 3, turned, size)}, 3);
}

Tensor rows_of_table(Emitter& e, const Tensor& table, const Tensor& ids) {
  if (table.rank() != 2) throw Error(ErrorKind::kUser, "want a table of rank 2");
  Shape shape = ids.shape;
  shape.push_back(dim_of(table, 1));
  const Shape count = {product(ids.shape)};
  return e.reshape(e.index_select(table, 0, e.reshape(ids, count)), shape);
}

}  // namespace tv::onnx

// com.microsoft's GroupQueryAttention: attention over a cache of keys and values, of which each
// row of the batch may have filled another part (ONNX Runtime, docs/ContribOperators.md).

#include <cmath>

#include "csrc/frontends/onnx/kit/attend.h"
#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

struct Grouped {
  Tensor q, k, v;      // (batch, heads, length, size), of the new tokens
  Tensor before;       // (batch), int64: keys of the cache that are filled
  Expr length, total;  // new tokens; rows of the cache afterwards
  int64_t heads = 0, kv_heads = 0, size = 0;
};

void check_attributes(OpContext& c) {
  c.only({"num_heads", "kv_num_heads", "scale", "softcap", "do_rotary", "rotary_interleaved",
          "local_window_size", "smooth_softmax", "qk_output", "kv_cache_bit_width", "k_quant_type",
          "v_quant_type", "causal", "sliding_window_cache", "q_norm_epsilon", "k_norm_epsilon",
          "qk_norm_epsilon"});
  for (const char* name : {"qk_output", "kv_cache_bit_width", "sliding_window_cache"}) {
    c.want_attr(name, 0);
  }
  c.want_attr("causal", 1);
  const int64_t window = c.i("local_window_size", -1);
  if (window != -1 && window < 1) {
    refuse("attribute local_window_size is " + std::to_string(window) + ", want -1 or more than 0");
  }
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    if (c.s(name, "NONE") != "NONE") refuse("a quantised cache (" + std::string(name) + ")");
  }
  const char* names[] = {"k_scale", "v_scale", "q_norm_weight", "k_norm_weight", "query_seqlens"};
  for (size_t i = 12; i < 17; ++i) {
    if (c.has(i)) refuse("an input " + std::string(names[i - 12]));
  }
  if (c.wants(3)) refuse("the output output_qk");
}

Tensor lengths_before(OpContext& c, const Grouped& g) {
  Emitter& e = c.e;
  const Expr batch = dim_of(g.q, 0);
  if (!c.has(3)) return e.full({batch}, DType::kI64, 0);
  const Tensor last = e.cast(e.reshape(c.in(5), {batch}), DType::kI64);
  const Tensor first = e.sub(last, size_tensor(e, g.length - Expr(1)));
  return e.binary("maximum", first, e.number(DType::kI64, 0));  // a padded prompt begins at 0
}

Grouped read(OpContext& c) {
  Emitter& e = c.e;
  Grouped g{.heads = c.i("num_heads", 0), .kv_heads = c.i("kv_num_heads", 0)};
  if (g.heads < 1 || g.kv_heads < 1 || g.heads % g.kv_heads) {
    throw Error(ErrorKind::kUser, "kv_num_heads does not divide num_heads");
  }
  const Tensor& query = c.in(0);
  const auto width = query.rank() == 3 ? query.shape[2].constant() : std::nullopt;
  if (!width) refuse("queries that are not (batch, length, a known size)");
  const int64_t heads = c.has(1) ? g.heads : g.heads + 2 * g.kv_heads;
  if (*width % heads) throw Error(ErrorKind::kUser, "num_heads does not divide the query");
  g.size = *width / heads;
  const Tensor all = heads_of(e, query, heads);
  if (c.has(1)) {
    g.q = all;
    g.k = heads_of(e, c.in(1), g.kv_heads);
    g.v = heads_of(e, c.in(2), g.kv_heads);
    e.equal(dim_of(g.k, 2), dim_of(g.q, 2));
  } else {
    g.q = e.slice(all, 1, 0, g.heads);
    g.k = e.slice(all, 1, g.heads, g.heads + g.kv_heads);
    g.v = e.slice(all, 1, g.heads + g.kv_heads, heads);
  }
  g.length = dim_of(g.q, 2);
  const auto total = c.known(6);
  if (total.size() != 1) throw Error(ErrorKind::kUser, "total_sequence_length is not one number");
  g.total = c.has(3) ? max(total[0], dim_of(c.in(3), 2)) : total[0];
  e.require(g.total, Relation::kAtLeast, g.length);
  g.before = lengths_before(c, g);
  return g;
}

/// The new tokens' places, (batch, length).
Tensor new_places(Emitter& e, const Grouped& g) {
  return e.add(e.unsqueeze(g.before, 1), places(e, g.length, 1, 2));
}

void rotate(OpContext& c, Grouped& g) {
  if (!c.i("do_rotary", 0)) return;
  Emitter& e = c.e;
  const Tensor ids = c.has(9) ? c.in(9) : new_places(e, g);
  const auto half = dim_of(c.in(7), 1).constant();
  if (!half || *half < 1 || 2 * *half > g.size) {
    throw Error(ErrorKind::kUser, "cos_cache is wider than half of a head");
  }
  const Tensor cos = rows_of_table(e, c.in(7), ids), sin = rows_of_table(e, c.in(8), ids);
  for (Tensor* t : {&g.q, &g.k}) {
    const Tensor rows = e.permute(*t, {0, 2, 1, 3});
    const bool interleaved = c.i("rotary_interleaved", 0) != 0;
    *t = e.permute(rotated(e, rows, cos, sin, 2 * *half, interleaved), {0, 2, 1, 3});
  }
}

/// A cache of g.total rows: the past's up to where it is filled, the new ones behind, then zeros.
Tensor present(OpContext& c, const Grouped& g, size_t past, const Tensor& fresh) {
  Emitter& e = c.e;
  if (!c.has(past)) return e.pad(fresh, {0, 0, 0, g.total - g.length}, 0);
  const Tensor& old = c.in(past);
  if (old.dtype != fresh.dtype) refuse("a cache of another type than the query's");
  const Tensor rows = e.pad(old, {0, 0, 0, g.total - dim_of(old, 2)}, 0);
  const Expr batch = dim_of(g.q, 0);
  const Tensor before = e.reshape(g.before, {batch, 1, 1, 1});
  const Tensor at = places(e, g.total, 2, 4);
  const Tensor number = e.sub(at, before);
  const Expr last = g.length - Expr(1);
  Tensor placed = fresh;
  if (!(g.length == Expr(1))) {
    const Tensor inside = e.binary("minimum", e.binary("maximum", number, e.number(DType::kI64, 0)),
                                   size_tensor(e, last));
    placed = e.gather(fresh, 2, e.expand(inside, {batch, g.kv_heads, g.total, g.size}));
  }
  const Tensor none = e.number(fresh.dtype, 0);
  const Tensor is_new = e.compare("le", number, size_tensor(e, last));
  return e.where(e.with("lt", number, 0), rows, e.where(is_new, placed, none));
}

/// Query i sees the keys up to its own place, and of these the last of the window.
Tensor bias_of(OpContext& c, const Grouped& g) {
  Emitter& e = c.e;
  const Tensor own = e.unsqueeze(e.unsqueeze(new_places(e, g), 1), 3);
  const Tensor at = places(e, g.total, 3, 4);
  Tensor seen = e.compare("le", at, own);
  const int64_t window = c.i("local_window_size", -1);
  if (window > 0) {
    const Tensor oldest = e.with("sub", own, static_cast<double>(window));
    seen = e.compare("logical_and", seen, e.compare("gt", at, oldest));
  }
  const Tensor hidden = bias_where(e, seen, g.q.dtype, -HUGE_VAL);
  if (!c.has(10)) return hidden;
  Tensor bias = c.in(10);
  e.equal(dim_of(bias, 2), g.length);
  e.require(g.total, Relation::kAtLeast, dim_of(bias, 3));
  bias = e.pad(bias, {0, g.total - dim_of(bias, 3)}, 0);  // keys that nobody sees
  return e.add(bias, hidden);
}

void group_query_attention(OpContext& c) {
  Emitter& e = c.e;
  check_attributes(c);
  Grouped g = read(c);
  rotate(c, g);
  const Tensor k = present(c, g, 3, g.k), v = present(c, g, 4, g.v);
  const double scale = c.f("scale", 0);
  const bool causal = !c.has(3) && c.i("local_window_size", -1) <= 0 && !c.has(10);
  Tensor sink = c.maybe(11);
  if (!sink.present && c.i("smooth_softmax", 0) == 1) sink = e.full({g.heads}, DType::kF32, 0);
  const Tensor y =
      attended(e, {.q = g.q,
                   .k = k,
                   .v = v,
                   .bias = causal ? Tensor{} : bias_of(c, g),
                   .causal = causal,
                   .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(g.size)),
                   .softcap = c.f("softcap", 0),
                   .sink = sink});
  c.out(0, joined_heads(e, y));
  c.out(1, k);
  c.out(2, v);
}

const RegisterOnnx ops{{"com.microsoft::GroupQueryAttention", group_query_attention}};

}  // namespace
}  // namespace tv::onnx

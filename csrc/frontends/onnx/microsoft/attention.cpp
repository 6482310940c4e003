// com.microsoft's attention (ONNX Runtime, docs/ContribOperators.md).

#include <cmath>

#include "csrc/frontends/onnx/kit/attend.h"
#include "csrc/frontends/onnx/kit/host_ops.h"
#include "csrc/frontends/onnx/operators/quantised_values.h"

namespace tv::onnx {
namespace {

/// Queries, keys and values as heads, and what says which keys they see.
struct Masked {
  Tensor q, k, v;
  Tensor mask, bias;
  Expr past = 0;  ///< keys before the queries' first
  double scale = 1, hidden = -10000;
  bool causal = false;
};

/// Of the queries' batch and a key's place: what a vector of ends, or of ends and then starts,
/// hides to the right and to the left.
Tensor seen_between(Emitter& e, const Tensor& mask, const Expr& batch, const Expr& keys) {
  const bool starts = !(mask.shape[0] == batch) && mask.shape[0] == batch * Expr(2);
  if (!starts) e.equal(mask.shape[0], batch);
  const Tensor at = places(e, keys, 3, 4);
  const auto column = [&](const Expr& from) {
    const Tensor part = e.slice(mask, 0, from, from + batch);
    return e.reshape(e.cast(part, DType::kI64), {batch, 1, 1, 1});
  };
  const Tensor seen = e.compare("lt", at, column(0));
  return starts ? e.compare("logical_and", seen, e.compare("ge", at, column(batch))) : seen;
}

/// Of a mask: (batch) or (2 batch), as above; (batch, keys) or (batch, queries, keys), 0 hides.
Tensor seen_by_mask(Emitter& e, const Tensor& mask, const Expr& batch, const Expr& queries,
                    const Expr& keys) {
  if (mask.rank() == 1) return seen_between(e, mask, batch, keys);
  if (mask.rank() != 2 && mask.rank() != 3) {
    refuse("a mask of rank " + std::to_string(mask.rank()));
  }
  e.equal(mask.shape[0], batch);
  e.equal(mask.shape.back(), keys);
  if (mask.rank() == 3) e.equal(mask.shape[1], queries);
  const Shape shape = {batch, 1, mask.rank() == 3 ? queries : Expr(1), keys};
  return e.reshape(mask.dtype == DType::kBool ? mask : e.with("gt", mask, 0), shape);
}

/// What is added to the scores: the bias, `hidden` where the mask hides, -inf for what follows.
Tensor bias_of(Emitter& e, const Masked& m) {
  const Expr batch = dim_of(m.q, 0), queries = dim_of(m.q, 2), keys = dim_of(m.k, 2);
  const DType dtype = m.q.dtype;
  Tensor sum;
  const auto add = [&](const Tensor& t) { sum = sum.present ? e.add(sum, t) : t; };
  if (m.bias.present) {
    if (m.bias.rank() != 4) throw Error(ErrorKind::kUser, "want an attention_bias of rank 4");
    e.equal(dim_of(m.bias, 2), queries);
    e.equal(dim_of(m.bias, 3), keys);
    add(m.bias);
  }
  if (m.mask.present) {
    add(bias_where(e, seen_by_mask(e, m.mask, batch, queries, keys), dtype, m.hidden));
  }
  if (m.causal) {
    const Tensor last = e.add(places(e, queries, 2, 4), size_tensor(e, m.past));
    add(bias_where(e, e.compare("ge", last, places(e, keys, 3, 4)), dtype, -HUGE_VAL));
  }
  return sum;
}

/// (batch, queries, heads · size)
Tensor attended_by(Emitter& e, const Masked& m) {
  const bool plainly_causal = m.causal && !m.mask.present && !m.bias.present && m.past == Expr(0);
  const Tensor y = attended(e, {.q = m.q,
                                .k = m.k,
                                .v = m.v,
                                .bias = plainly_causal ? Tensor{} : bias_of(e, m),
                                .causal = plainly_causal,
                                .scale = m.scale});
  return joined_heads(e, y);
}

void read_attributes(OpContext& c, Masked& m) {
  const auto size = dim_of(m.q, 3).constant();
  if (!size || *size < 1) refuse("a head of dynamic size");
  const double scale = c.f("scale", 0);
  m.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(*size));
  m.hidden = c.f("mask_filter_value", -10000);
  // One query sees all keys, for ONNX Runtime, which is not a mask where its keys are the last.
  const Expr queries = dim_of(m.q, 2);
  m.causal = c.i("unidirectional", 0) != 0 && !(queries == Expr(1));
  if (m.causal && !queries.is_constant() && !(dim_of(m.k, 2) == m.past + queries)) {
    refuse("a causal mask of a dynamic number of queries over another number of keys");
  }
}

int64_t heads_attr(OpContext& c) {
  const int64_t heads = c.i("num_heads", 0);
  if (heads < 1) throw Error(ErrorKind::kUser, "num_heads must be positive");
  return heads;
}

// --- Attention: one product makes queries, keys and values ---

/// Sizes of queries, keys and values: they are parts of the product's width.
std::vector<int64_t> parts_of(OpContext& c, const Tensor& qkv) {
  std::vector<int64_t> parts = c.ints("qkv_hidden_sizes");
  const auto width = qkv.shape.back().constant();
  if (!width) refuse("a dynamic number of channels");
  if (parts.empty()) parts.assign(3, *width / 3);
  const bool fits =
      parts.size() == 3 && parts[0] == parts[1] && parts[0] + parts[1] + parts[2] == *width;
  if (!fits) throw Error(ErrorKind::kUser, "qkv_hidden_sizes do not fit the weight");
  return parts;
}

/// `past` and `present` are (2, batch, heads, length, size).
void attend_packed(OpContext& c, const Tensor& qkv, const Tensor& mask, const Tensor& past,
                   const Tensor& bias) {
  Emitter& e = c.e;
  const int64_t heads = heads_attr(c);
  const std::vector<int64_t> sizes = parts_of(c, qkv);
  if (sizes[0] != sizes[2] && (past.present || c.wants(1))) {
    refuse("a cache of keys and values of different sizes");
  }
  int64_t from = 0;
  std::vector<Tensor> parts;
  for (const int64_t size : sizes) {
    parts.push_back(heads_of(e, e.slice(qkv, 2, from, from + size), heads));
    from += size;
  }
  Masked m{.q = parts[0], .k = parts[1], .v = parts[2], .mask = mask, .bias = bias};
  if (past.present) {
    if (past.rank() != 5) throw Error(ErrorKind::kUser, "want a past of rank 5");
    m.past = dim_of(past, 3);
    m.k = e.cat({e.select(past, 0, 0), m.k}, 2);
    m.v = e.cat({e.select(past, 0, 1), m.v}, 2);
  }
  read_attributes(c, m);
  c.out(0, attended_by(e, m));
  if (c.wants(1)) c.out(1, e.stack({m.k, m.v}, 0));
}

void attention(OpContext& c) {
  Emitter& e = c.e;
  c.only({"num_heads", "unidirectional", "qkv_hidden_sizes", "scale", "mask_filter_value",
          "do_rotary", "rotary_embedding_dim", "past_present_share_buffer"});
  c.want_attr("do_rotary", 0);
  c.want_attr("rotary_embedding_dim", 0);
  c.want_attr("past_present_share_buffer", 0);
  if (c.has(6)) refuse("a past_sequence_length");
  if (c.in(0).rank() != 3) throw Error(ErrorKind::kUser, "want an input of rank 3");
  Tensor qkv = e.matmul(c.in(0), c.in(1));
  if (c.has(2)) qkv = e.add(qkv, c.in(2));
  attend_packed(c, qkv, c.maybe(3), c.maybe(4), c.maybe(5));
}

/// Likewise of 8-bit integers: input, weight, bias, their scales, mask, their zero points, past.
void quantised_attention(OpContext& c) {
  c.only({"num_heads", "unidirectional", "scale", "mask_filter_value", "do_rotary",
          "past_present_share_buffer"});
  c.want_attr("do_rotary", 0);
  c.want_attr("past_present_share_buffer", 0);
  const Tensor qkv =
      scaled_product(c.e, {c.in(0), c.in(3), c.maybe(6)}, {c.in(1), c.in(4), c.maybe(7)}, c.in(2));
  attend_packed(c, qkv, c.maybe(5), c.maybe(8), {});
}

// --- MultiHeadAttention: queries, keys and values come apart, or packed ---

/// Part i of n along dimension d, which goes.
Tensor packed_part(Emitter& e, const Tensor& x, int64_t d, int64_t i) {
  return e.permute(e.select(x, d, i), {0, 2, 1, 3});
}

Tensor with_bias(OpContext& c, const Tensor& x, int64_t from, int64_t* to) {
  if (!c.has(3)) return x;
  const auto width = x.shape.back().constant();
  if (!width || c.in(3).rank() != 1) throw Error(ErrorKind::kUser, "a bias that does not fit");
  *to = from + *width;
  return c.e.add(x, c.e.slice(c.in(3), 0, from, *to));
}

/// Queries, keys and values of rank 3, with their parts of the bias.
void split_rows(OpContext& c, Masked& m, int64_t heads) {
  int64_t q_end = 0, k_end = 0, v_end = 0;
  m.q = heads_of(c.e, with_bias(c, c.in(0), 0, &q_end), heads);
  m.k = heads_of(c.e, with_bias(c, c.in(1), q_end, &k_end), heads);
  m.v = heads_of(c.e, with_bias(c, c.in(2), k_end, &v_end), heads);
}

/// What the ranks of the operands say of how they are packed.
void read_operands(OpContext& c, Masked& m, int64_t heads) {
  Emitter& e = c.e;
  const Tensor& q = c.in(0);
  if (q.rank() == 5) {  // (batch, length, heads, 3, size)
    if (c.has(1) || c.has(2)) throw Error(ErrorKind::kUser, "keys beside packed queries");
    if (c.has(3)) refuse("a bias of packed queries, keys and values");
    m.q = packed_part(e, q, 3, 0);
    m.k = packed_part(e, q, 3, 1);
    m.v = packed_part(e, q, 3, 2);
    return;
  }
  if (q.rank() != 3) throw Error(ErrorKind::kUser, "want a query of rank 3 or 5");
  if (!c.has(1)) refuse("queries of rank 3 with packed keys and values");
  const Tensor& k = c.in(1);
  if (k.rank() == 3) return split_rows(c, m, heads);
  if (k.rank() == 5) {  // (batch, length, heads, 2, size)
    if (c.has(3)) refuse("a bias of packed keys and values");
    m.q = heads_of(e, q, heads);
    m.k = packed_part(e, k, 3, 0);
    m.v = packed_part(e, k, 3, 1);
    return;
  }
  if (k.rank() != 4 || c.in(2).rank() != 4) {
    throw Error(ErrorKind::kUser, "want keys and values of one rank, 3 or 4");
  }
  int64_t end = 0;
  m.q = heads_of(e, with_bias(c, q, 0, &end), heads);
  m.k = k;
  m.v = c.in(2);
}

void multi_head_attention(OpContext& c) {
  Emitter& e = c.e;
  c.only({"num_heads", "unidirectional", "scale", "mask_filter_value"});
  for (const size_t i : {8, 9}) {
    if (c.has(i)) refuse(i == 8 ? "a past_sequence_length" : "a cache_indirection");
  }
  if (c.wants(3)) refuse("the output qk");
  Masked m{.mask = c.maybe(4), .bias = c.maybe(5)};
  read_operands(c, m, heads_attr(c));
  if (c.has(6)) {
    m.past = dim_of(c.in(6), 2);
    m.k = e.cat({c.in(6), m.k}, 2);
    m.v = e.cat({c.in(7), m.v}, 2);
  }
  for (const Tensor* t : {&m.k, &m.v}) e.equal(dim_of(*t, 0), dim_of(m.q, 0));
  e.equal(dim_of(m.v, 2), dim_of(m.k, 2));
  e.equal(dim_of(m.k, 3), dim_of(m.q, 3));
  read_attributes(c, m);
  c.out(0, attended_by(e, m));
  c.out(1, m.k);
  c.out(2, m.v);
}

// --- RotaryEmbedding ---

/// (batch or 1, length) of int64: one place is the first row's.
Tensor positions_of(Emitter& e, const Tensor& ids, const Expr& length) {
  if (ids.rank() == 2) {
    e.equal(ids.shape[1], length);
    return ids;
  }
  return e.add(places(e, length, 1, 2), e.reshape(e.cast(ids, DType::kI64), {1, 1}));
}

void rotary_embedding(OpContext& c) {
  Emitter& e = c.e;
  c.only({"interleaved", "num_heads", "rotary_embedding_dim", "scale", "is_packed_batching"});
  c.want_attr("is_packed_batching", 0);
  if (c.f("scale", 1) != 1) refuse("attribute scale is not 1");
  const Tensor &x = c.in(0), &cos_table = c.in(2), &sin_table = c.in(3);
  const auto half = cos_table.shape.back().constant();
  if (!half || *half < 1) refuse("a table of cosines of dynamic width");
  const bool flat = x.rank() == 3;
  int64_t heads = c.i("num_heads", 0);
  const auto width = x.shape.back().constant();
  if (flat && heads == 0 && width) heads = *width / (2 * *half);
  if (!flat && x.rank() != 4) throw Error(ErrorKind::kUser, "want an input of rank 3 or 4");
  const Tensor rows = e.permute(heads_of(e, x, heads), {0, 2, 1, 3});
  const int64_t turned =
      c.i("rotary_embedding_dim", 0) ? c.i("rotary_embedding_dim", 0) : 2 * *half;
  const auto size = dim_of(rows, 3).constant();
  if (!size || turned < 2 || turned > *size || turned != 2 * *half) {
    throw Error(ErrorKind::kUser, "cosines of " + std::to_string(*half) + " angles, want " +
                                      std::to_string(turned / 2) + ", at most half of a head");
  }
  const Tensor ids = positions_of(e, c.in(1), dim_of(rows, 1));
  const Tensor y = rotated(e, rows, rows_of_table(e, cos_table, ids),
                           rows_of_table(e, sin_table, ids), turned, c.i("interleaved", 0) != 0);
  c.out(0, flat ? e.reshape(y, x.shape) : e.permute(y, {0, 2, 1, 3}));
}

const RegisterOnnx ops{{"com.microsoft::Attention", attention},
                       {"com.microsoft::QAttention", quantised_attention},
                       {"com.microsoft::MultiHeadAttention", multi_head_attention},
                       {"com.microsoft::RotaryEmbedding", rotary_embedding}};

}  // namespace
}  // namespace tv::onnx

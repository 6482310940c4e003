// Attention, rotary embedding, and what goes with them.

#include <cmath>

#include "csrc/frontends/onnx/kit/attend.h"
#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

struct Problem {
  Tensor q, k, v, mask, past, lengths;
  DType dtype = DType::kF32;
  Expr query_length, key_length, past_length;
};

// Query i stands at place i + offset among the keys. What stands after it, or outside of the window
// around it, is left out.
Tensor visible(OpContext& c, const Problem& p, const Tensor& offset) {
  Emitter& e = c.e;
  const DType index = DType::kI64;
  const Tensor rows = e.reshape(e.arange(p.query_length, index), {p.query_length, 1});
  const Tensor columns = e.reshape(e.arange(p.key_length, index), {1, p.key_length});
  const Tensor at = e.add(rows, offset);
  const auto left = c.i("left_window_size", -1), right = c.i("right_window_size", -1);
  Tensor seen;
  const auto also = [&](const Tensor& test) {
    seen = seen.present ? e.compare("logical_and", seen, test) : test;
  };
  if (c.i("is_causal", 0) != 0) also(e.compare("ge", at, columns));
  if (left >= 0) also(e.compare("le", e.with("sub", at, static_cast<double>(left)), columns));
  if (right >= 0) also(e.compare("ge", e.with("add", at, static_cast<double>(right)), columns));
  return seen;
}

// The mask that is added to the scores; none if everything is visible.
Tensor bias_of(OpContext& c, const Problem& p) {
  Emitter& e = c.e;
  const bool placed = c.i("is_causal", 0) != 0 || c.i("left_window_size", -1) >= 0 ||
                      c.i("right_window_size", -1) >= 0;
  Tensor bias;
  if (p.mask.present) {
    Tensor mask = p.mask;
    if (mask.dtype == DType::kBool) {
      const Tensor none = e.number(p.dtype, 0), all = e.number(p.dtype, -HUGE_VAL);
      mask = e.where(mask, none, all);
    }
    const Expr width = dim_of(mask, -1);
    const Shape scores = {dim_of(p.q, 0), dim_of(p.q, 1), p.query_length};
    for (int64_t d = 2; d <= mask.rank() && d <= 4; ++d) {
      const Expr& own = dim_of(mask, -d);
      const Expr& other = scores[static_cast<size_t>(4 - d)];
      if (own == Expr(1)) continue;
      e.keep_apart(own, other);
      e.equal(own, other);
    }
    if (!(width == p.key_length)) {  // a shorter mask leaves out the keys after it
      mask = e.pad(mask, {0, p.key_length - width}, -HUGE_VAL);
    }
    bias = e.cast(mask, p.dtype);
  }
  Tensor seen;
  if (p.lengths.present) {
    const Tensor lengths =
        e.reshape(e.cast(p.lengths, DType::kI64), {dim_of(p.lengths, 0), 1, 1, 1});
    const Tensor columns = e.reshape(e.arange(p.key_length, DType::kI64), {1, p.key_length});
    seen = e.compare("lt", columns, lengths);
    if (placed) {
      const Tensor offset = e.sub(lengths, size_tensor(e, p.query_length));
      seen = e.compare("logical_and", seen, visible(c, p, offset));
    }
  } else if (placed) {
    seen = visible(c, p, size_tensor(e, p.past_length));
  }
  if (seen.present) {
    const Tensor hidden = e.where(seen, e.number(p.dtype, 0), e.number(p.dtype, -HUGE_VAL));
    bias = bias.present ? e.add(bias, hidden) : hidden;
  }
  return bias;
}

// The first queries and keys are at one place, and nothing but what follows is hidden.
bool is_plainly_causal(OpContext& c, const Problem& p) {
  const bool windows = c.i("left_window_size", -1) >= 0 || c.i("right_window_size", -1) >= 0;
  return c.i("is_causal", 0) != 0 && !windows && !p.mask.present && !p.lengths.present &&
         !p.past.present;
}

// The operands with heads, keys and values behind those of the past.
Problem problem_of(OpContext& c) {
  Emitter& e = c.e;
  Problem p{.q = heads_of(e, c.in(0), c.i("q_num_heads", 0)),
            .k = heads_of(e, c.in(1), c.i("kv_num_heads", 0)),
            .v = heads_of(e, c.in(2), c.i("kv_num_heads", 0)),
            .mask = c.maybe(3),
            .past = c.maybe(4),
            .lengths = c.maybe(6)};
  p.dtype = c.in(0).dtype;
  if (p.q.rank() != 4 || p.k.rank() != 4 || p.v.rank() != 4) {
    throw Error(ErrorKind::kUser, "want operands of rank 3 or 4");
  }
  if (p.past.present) {
    p.past_length = dim_of(p.past, 2);
    p.k = e.cat({p.past, p.k}, 2);
    p.v = e.cat({c.in(5), p.v}, 2);
  }
  p.query_length = dim_of(p.q, 2);
  p.key_length = dim_of(p.k, 2);
  return p;
}

double scale_of(OpContext& c, const Problem& p) {
  const auto size = dim_of(p.q, 3).constant();
  if (!size || *size < 1) refuse("a head of dynamic size");
  return c.has_attr("scale") ? c.f("scale", 1) : 1 / std::sqrt(double(*size));
}

// Step by step, for what the operator of the Graph does not have: a cap, scores as an output,
// operands of several types.
Tensor attended_in_steps(OpContext& c, const Problem& p, double scale) {
  Emitter& e = c.e;
  const double cap = c.f("softcap", 0);
  const Tensor k = repeated_heads(e, p.k, dim_of(p.q, 1)),
               v = repeated_heads(e, p.v, dim_of(p.q, 1));
  const Tensor bias = bias_of(c, p);
  const bool masked = bias.present;
  // Scores, softmax and the products in float32: 16-bit operands are rounded once, at the end.
  const DType wide = DType::kF32;
  const Tensor scaled = e.with("mul", e.cast(p.q, wide), scale);
  const Tensor plain = e.matmul(scaled, e.transpose(e.cast(k, wide), 2, 3));
  Tensor capped = plain;
  if (cap != 0) capped = e.with("mul", e.unary("tanh", e.with("div", plain, cap)), cap);
  const Tensor biased = masked ? e.add(capped, e.cast(bias, wide)) : capped;
  const Tensor weights =
      masked ? softmax_of_visible(e, biased) : e.softmax(biased, biased.rank() - 1);
  const int64_t mode = c.i("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) throw Error(ErrorKind::kUser, "qk_matmul_output_mode");
  if (c.wants(3)) {
    const Tensor steps[] = {plain, capped, biased, weights};
    c.out(3, e.cast(steps[mode], p.dtype));
  }
  return e.cast(e.matmul(weights, e.cast(v, wide)), p.dtype);
}

void attention(OpContext& c) {
  Emitter& e = c.e;
  const Problem p = problem_of(c);
  c.out(1, p.k);
  c.out(2, p.v);
  for (const Tensor* t : {&p.k, &p.v}) e.equal(dim_of(*t, 0), dim_of(p.q, 0));
  e.equal(dim_of(p.v, 2), p.key_length);
  e.equal(dim_of(p.k, 3), dim_of(p.q, 3));
  const double scale = scale_of(c, p);
  Tensor y;
  const bool one_type = p.k.dtype == p.dtype && p.v.dtype == p.dtype;
  if (!c.wants(3) && c.f("softcap", 0) == 0 && one_type) {
    const bool causal = is_plainly_causal(c, p);
    y = attended(e, {.q = p.q,
                     .k = p.k,
                     .v = p.v,
                     .bias = causal ? Tensor{} : bias_of(c, p),
                     .causal = causal,
                     .scale = scale});
  } else {
    y = attended_in_steps(c, p, scale);
  }
  c.out(0, c.in(0).rank() == 3 ? joined_heads(e, y) : y);
}

void rotary_embedding(OpContext& c) {
  Emitter& e = c.e;
  const bool flat = c.in(0).rank() == 3;
  Tensor x = c.in(0);
  // To (batch, length, heads, size).
  if (flat) {
    const auto width = dim_of(x, 2).constant();
    const int64_t heads = c.i("num_heads", 0);
    if (!width || heads < 1 || *width % heads != 0) throw Error(ErrorKind::kUser, "num_heads");
    x = e.reshape(x, {dim_of(x, 0), dim_of(x, 1), heads, *width / heads});
  } else {
    x = e.permute(x, {0, 2, 1, 3});
  }
  const auto size = dim_of(x, 3).constant();
  if (!size) refuse("a head of dynamic size");
  const int64_t given = c.i("rotary_embedding_dim", 0), turned = given ? given : *size;
  if (turned < 2 || turned > *size || turned % 2)
    throw Error(ErrorKind::kUser, "rotary_embedding_dim");
  Tensor cos = c.in(1), sin = c.in(2);
  if (c.has(3)) {
    cos = rows_of_table(e, cos, c.in(3));
    sin = rows_of_table(e, sin, c.in(3));
  }
  const Tensor y = rotated(e, x, e.slice(cos, 2, 0, turned / 2), e.slice(sin, 2, 0, turned / 2),
                           turned, c.i("interleaved", 0) != 0);
  c.out(0, flat ? e.reshape(y, c.in(0).shape) : e.permute(y, {0, 2, 1, 3}));
}

// The past of a cache with new rows written from a place on, which each batch may choose.
void tensor_scatter(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &past = c.in(0), &update = c.in(1);
  const int64_t axis = c.axis("axis", -2, past.rank());
  if (axis == 0) throw Error(ErrorKind::kUser, "axis is the batch");
  const Expr length = dim_of(update, axis), size = dim_of(past, axis);
  for (int64_t d = 0; d < past.rank(); ++d) {
    if (d == Emitter::wrap(axis, past.rank())) {
      e.require(size, Relation::kAtLeast, length);
    } else {
      e.equal(dim_of(update, d), dim_of(past, d));
    }
  }
  Shape shape(past.shape.size(), Expr(1));
  shape[static_cast<size_t>(axis)] = length;
  Tensor places = e.reshape(e.arange(length, DType::kI64), shape);
  if (c.has(2)) {
    Shape batch(past.shape.size(), Expr(1));
    batch[0] = dim_of(c.in(2), 0);
    places = e.add(places, e.reshape(e.cast(c.in(2), DType::kI64), batch));
  }
  if (c.s("mode", "linear") == "circular")
    places = e.binary("remainder", places, size_tensor(e, size));
  c.out(0, e.node("aten::scatter.src",
                  {e.arg("self", past), attr_arg("dim", Expr(axis)),
                   e.arg("index", e.expand(places, update.shape)), e.arg("src", update)},
                  past.dtype, past.shape));
}

void swiglu(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& gate = c.in(0);
  const Tensor scaled = e.with("mul", gate, c.f("alpha", 1));
  c.out(0, e.mul(e.mul(gate, e.unary("sigmoid", scaled)), c.in(1)));
}

const RegisterOnnx ops{{"Attention", attention},
                       {"RotaryEmbedding", rotary_embedding},
                       {"TensorScatter", tensor_scatter},
                       {"SwiGLU", swiglu}};

}  // namespace
}  // namespace tv::onnx

#pragma once
// What the operators of attention are made of.

#include "csrc/frontends/onnx/kit/context.h"

namespace tv::onnx {

/// softmax(scale q k' + bias) v. Operands are (batch, heads, length, size); the keys' heads divide
/// the queries'.
struct Attend {
  Tensor q, k, v;
  Tensor bias;          ///< added to the scores, of q's type; or none
  bool causal = false;  ///< instead of a bias: key i is hidden from the queries before it
  double scale = 1;
  double softcap = 0;  ///< scores s become softcap tanh(s / softcap), before the bias; 0: they stay
  Tensor sink;         ///< a score for each head that takes its part and has no value; or none
};
/// (batch, heads, query length, value size), of q's type. Rows without a visible key are 0.
Tensor attended(Emitter& e, const Attend& a);

/// A size of x; `d` below 0 counts from the end.
Expr dim_of(const Tensor& x, int64_t d);
/// (batch, length, heads · size) as (batch, heads, length, size); what has rank 4 stays.
Tensor heads_of(Emitter& e, const Tensor& x, int64_t heads);
/// The way back.
Tensor joined_heads(Emitter& e, const Tensor& x);
/// Keys or values of fewer heads, repeated for each of the queries'.
Tensor repeated_heads(Emitter& e, const Tensor& x, const Expr& heads);
/// Rows without a visible key, whose largest score is -inf, are 0.
Tensor softmax_of_visible(Emitter& e, const Tensor& scores);
/// 0 where `seen`, else `hidden`; of a float type.
Tensor bias_where(Emitter& e, const Tensor& seen, DType dtype, double hidden);
/// A size as a scalar, int64.
Tensor size_tensor(Emitter& e, const Expr& size);
/// 0, 1, … along dimension `at` of a tensor of this rank, int64.
Tensor places(Emitter& e, const Expr& count, int64_t at, int64_t rank);

/// The first `turned` elements of each head of x, (batch, length, heads, size), rotated by angles
/// whose cosines and sines are (batch or 1, length, turned / 2).
Tensor rotated(Emitter& e, const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t turned,
               bool interleaved);
/// Rows of a table, one for each element of `ids`: its shape, then the row's size.
Tensor rows_of_table(Emitter& e, const Tensor& table, const Tensor& ids);

}  // namespace tv::onnx

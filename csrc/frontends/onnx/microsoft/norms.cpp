// com.microsoft's normalisations (ONNX Runtime, docs/ContribOperators.md), and the one that it
// keeps in ai.onnx.

#include "csrc/frontends/onnx/operators/norms.h"

#include "csrc/frontends/onnx/kit/attend.h"
#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

void simplified_layer_norm(OpContext& c) {
  c.only({"axis", "epsilon", "stash_type"});
  c.want_attr("stash_type", 1);
  if (c.wants(1)) refuse("the output inv_std_var");
  rms_norm(c);
}

/// The sum that is normalised, in float32: 16-bit operands are rounded once, at the end.
Tensor sum_of(OpContext& c, size_t bias) {
  Emitter& e = c.e;
  const DType wide = DType::kF32;
  Tensor sum = e.add(e.cast(c.in(0), wide), e.cast(c.in(1), wide));
  if (c.has(bias)) sum = e.add(sum, e.cast(c.in(bias), wide));
  if (!(sum.shape == c.in(0).shape)) throw Error(ErrorKind::kUser, "skip does not fit the input");
  return sum;
}

void skip_layer_norm(OpContext& c) {
  Emitter& e = c.e;
  c.only({"epsilon"});
  if (c.wants(1) || c.wants(2)) refuse("the outputs mean and inv_std_var");
  const bool simple = c.type() == "SkipSimplifiedLayerNormalization";
  const Tensor sum = sum_of(c, simple ? 3 : 4);
  NormParameters p{.weight = e.cast(c.in(2), DType::kF32),
                   .bias = {},
                   .axis = sum.rank() - 1,
                   .epsilon = c.f("epsilon", 1e-12f)};
  if (!simple && c.has(3)) p.bias = e.cast(c.in(3), DType::kF32);
  const Tensor y = simple ? rms_normalised(e, sum, p) : layer_normalised(e, sum, p).y;
  c.out(0, e.cast(y, c.in(0).dtype));
  if (c.wants(3)) c.out(3, e.cast(sum, c.in(0).dtype));
}

/// How many of each row's elements are 1, int32; 0 without a mask.
Tensor ones_in_rows(OpContext& c, const Tensor& mask, const Expr& batch) {
  Emitter& e = c.e;
  if (!mask.present) return e.full({batch}, DType::kI32, 0);
  return e.cast(e.reduce("sum", e.cast(e.with("eq", mask, 1), DType::kI64), {1}, false),
                DType::kI32);
}

/// ids, segments, tables of words, positions and segments, weight, bias, mask, positions.
void embed_layer_norm(OpContext& c) {
  Emitter& e = c.e;
  c.only({"epsilon", "mask_index_type"});
  // Of 0 and 1 alike, the mask's index is made from the mask.
  if (c.i("mask_index_type", 0) != 1) c.want_attr("mask_index_type", 0);
  const Tensor& ids = c.in(0);
  if (ids.rank() != 2) throw Error(ErrorKind::kUser, "want input_ids of rank 2");
  const DType dtype = c.in(2).dtype, wide = DType::kF32;
  Tensor at = c.has(8) ? c.in(8) : e.unsqueeze(e.arange(ids.shape[1], DType::kI64), 0);
  Tensor sum = e.add(e.cast(rows_of_table(e, c.in(2), ids), wide),
                     e.cast(rows_of_table(e, c.in(3), at), wide));
  if (c.has(1)) {
    const Tensor rows = rows_of_table(e, c.in(4), c.in(1));
    sum = e.add(sum, e.cast(rows, wide));
  }
  const NormParameters p{.weight = e.cast(c.in(5), wide),
                         .bias = e.cast(c.in(6), wide),
                         .axis = 2,
                         .epsilon = c.f("epsilon", 1e-12f)};
  c.out(0, e.cast(layer_normalised(e, sum, p).y, dtype));
  if (c.wants(1)) c.out(1, ones_in_rows(c, c.maybe(7), ids.shape[0]));
  if (c.wants(2)) c.out(2, e.cast(sum, dtype));
}

/// Of channels in groups: (batch, …, channels) as it comes, or (batch, channels, …).
void group_norm(OpContext& c) {
  Emitter& e = c.e;
  c.only({"groups", "epsilon", "activation", "channels_last"});
  const bool skips = c.type() == "SkipGroupNorm", last = c.i("channels_last", 1) != 0;
  const int64_t activation = c.i("activation", 0);
  if (activation != 0 && activation != 1) c.want_attr("activation", 1);
  const Tensor& given = c.in(0);
  const DType wide = DType::kF32;
  if (given.rank() != 4) refuse("an input of another rank than 4");
  Tensor x = e.cast(given, wide);
  if (skips) {
    const auto of_channels = [&](const Tensor& t) {
      if (t.rank() == 4) return e.cast(t, wide);
      Shape shape = {t.rank() == 2 ? t.shape[0] : Expr(1), 1, 1, 1};
      shape[last ? 3 : 1] = t.shape.back();
      return e.reshape(e.cast(t, wide), shape);
    };
    x = e.add(x, of_channels(c.in(3)));
    if (c.has(4)) x = e.add(x, of_channels(c.in(4)));
    if (c.wants(1)) c.out(1, e.cast(x, given.dtype));
  }
  if (last) x = e.permute(x, {0, 3, 1, 2});
  const int64_t groups = c.i("groups", 0);
  const auto channels = x.shape[1].constant();
  if (groups < 1 || !channels || *channels % groups) {
    throw Error(ErrorKind::kUser, "groups does not divide the channels");
  }
  const Shape statistics = {x.shape[0], Expr(groups)};
  Tensor y = e.nodes("aten::native_group_norm",
                     {e.arg("input", x), e.arg("weight", e.cast(c.in(1), wide)),
                      e.arg("bias", e.cast(c.in(2), wide)), attr_arg("N", x.shape[0]),
                      attr_arg("C", x.shape[1]), attr_arg("HxW", x.shape[2] * x.shape[3]),
                      attr_arg("group", Expr(groups)), attr_arg("eps", c.f("epsilon", 1e-5f))},
                     {{wide, x.shape}, {wide, statistics}, {wide, statistics}})[0];
  if (activation == 1) y = e.unary("silu", y);
  if (last) y = e.permute(y, {0, 2, 3, 1});
  c.out(0, e.cast(y, given.dtype));
}

const RegisterOnnx ops{{"SimplifiedLayerNormalization", simplified_layer_norm},
                       {"com.microsoft::SkipLayerNormalization", skip_layer_norm},
                       {"com.microsoft::SkipSimplifiedLayerNormalization", skip_layer_norm},
                       {"com.microsoft::EmbedLayerNormalization", embed_layer_norm},
                       {"com.microsoft::GroupNorm", group_norm},
                       {"com.microsoft::SkipGroupNorm", group_norm}};

}  // namespace
}  // namespace tv::onnx

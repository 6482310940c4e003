// Normalisations and softmax.

#include "csrc/frontends/onnx/operators/norms.h"

#include <numeric>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

// A vector over channels, to be broadcast against x.
Tensor along_channels(Emitter& e, const Tensor& vector, const Tensor& x) {
  Shape shape(x.shape.size(), Expr(1));
  if (shape.size() > 1) shape[1] = vector.shape.at(0);
  return e.reshape(vector, shape);
}

void batch_norm(OpContext& c) {
  const Tensor& x = c.in(0);
  const double epsilon = c.f("epsilon", 1e-5f), momentum = c.f("momentum", 0.9f);
  if (x.rank() < 2) throw Error(ErrorKind::kUser, "want an input of rank 2 or more");
  if (c.i("spatial", 1) == 0) refuse("statistics of each place (spatial = 0)");
  const bool training = c.i("training_mode", 0) != 0;
  for (size_t i : {1, 2, 3, 4}) c.e.same(c.in(i).shape.at(0), x.shape[1]);
  if (!training && c.in(1).dtype == x.dtype && c.in(3).dtype == x.dtype) {
    const auto y =
        c.e.nodes("aten::_native_batch_norm_legit_no_training",
                  {c.e.arg("input", x), c.e.arg("weight", c.in(1)), c.e.arg("bias", c.in(2)),
                   c.e.arg("running_mean", c.in(3)), c.e.arg("running_var", c.in(4)),
                   attr_arg("momentum", 1 - momentum), attr_arg("eps", epsilon)},
                  {{x.dtype, x.shape}, {x.dtype, {0}}, {x.dtype, {0}}});
    return c.out(0, y[0]);
  }
  Emitter& e = c.e;
  Tensor mean = c.in(3), variance = c.in(4);
  if (training) {
    std::vector<int64_t> dims = {0};
    for (int64_t d = 2; d < x.rank(); ++d) dims.push_back(d);
    mean = e.reduce("mean", x, dims, false);
    const Tensor centred = e.sub(x, along_channels(e, mean, x));
    variance = e.reduce("mean", e.mul(centred, centred), dims, false);
    const auto mix = [&](const Tensor& old, const Tensor& now) {
      return e.add(e.with("mul", old, momentum),
                   e.cast(e.with("mul", now, 1 - momentum), old.dtype));
    };
    if (c.wants(1)) c.out(1, mix(c.in(3), mean));
    if (c.wants(2)) c.out(2, mix(c.in(4), variance));
  }
  const DType wide = DType::kF32;
  const Tensor scale =
      e.div(e.cast(c.in(1), wide), e.unary("sqrt", e.with("add", e.cast(variance, wide), epsilon)));
  const Tensor centred = e.sub(e.cast(x, wide), along_channels(e, e.cast(mean, wide), x));
  const Tensor y = e.add(e.mul(centred, along_channels(e, scale, x)),
                         along_channels(e, e.cast(c.in(2), wide), x));
  c.out(0, e.cast(y, x.dtype));
}

void instance_norm(OpContext& c) {
  const Tensor& x = c.in(0);
  Emitter& e = c.e;
  std::vector<int64_t> dims;
  for (int64_t d = 2; d < x.rank(); ++d) dims.push_back(d);
  if (dims.empty()) throw Error(ErrorKind::kUser, "want an input of rank 3 or more");
  const Tensor centred = e.sub(x, e.reduce("mean", x, dims, true));
  const Tensor variance = e.reduce("mean", e.mul(centred, centred), dims, true);
  const Tensor scaled =
      e.mul(centred, e.unary("rsqrt", e.with("add", variance, c.f("epsilon", 1e-5f))));
  c.out(0, e.add(e.mul(scaled, along_channels(e, c.in(1), x)), along_channels(e, c.in(2), x)));
}

// Scale and bias are of groups before opset 21, of channels from then on.
void group_norm(OpContext& c) {
  const Tensor& x = c.in(0);
  Emitter& e = c.e;
  const int64_t groups = c.i("num_groups", 0);
  const auto channels = x.rank() < 2 ? std::nullopt : x.shape[1].constant();
  if (groups < 1 || !channels || *channels % groups != 0) {
    throw Error(ErrorKind::kUser, "num_groups does not divide the channels");
  }
  Tensor weight = c.in(1), bias = c.in(2);
  const Expr scaled = c.opset() >= 21 ? *channels : groups;
  for (const Tensor* t : {&weight, &bias}) e.equal(t->shape.at(0), scaled);
  const auto spread = [&](const Tensor& t) {
    if (c.opset() >= 21 || *channels == groups) return t;
    return e.reshape(e.expand(e.unsqueeze(t, 1), {groups, *channels / groups}), {*channels});
  };
  const Shape all(x.shape.begin() + 2, x.shape.end());
  const auto made =
      e.nodes("aten::native_group_norm",
              {e.arg("input", x), e.arg("weight", spread(weight)), e.arg("bias", spread(bias)),
               attr_arg("N", x.shape[0]), attr_arg("C", x.shape[1]), attr_arg("HxW", product(all)),
               attr_arg("group", Expr(groups)), attr_arg("eps", c.f("epsilon", 1e-5f))},
              {{x.dtype, x.shape},
               {x.dtype, {x.shape[0], Expr(groups)}},
               {x.dtype, {x.shape[0], Expr(groups)}}});
  c.out(0, made[0]);
}

}  // namespace

Normalised layer_normalised(Emitter& e, const Tensor& x, const NormParameters& p) {
  const int64_t axis = p.axis;
  const Shape rows(x.shape.begin(), x.shape.begin() + axis);
  const Shape normalized(x.shape.begin() + axis, x.shape.end());
  Shape statistics = rows;
  statistics.resize(x.shape.size(), Expr(1));
  const bool direct = p.weight.shape == normalized &&
                      (!p.bias.present || p.bias.shape == normalized) && p.weight.dtype == x.dtype;
  if (direct) {
    const auto made =
        e.nodes("aten::native_layer_norm",
                {e.arg("input", x), attr_arg("normalized_shape", normalized),
                 e.arg("weight", p.weight), e.arg("bias", p.bias), attr_arg("eps", p.epsilon)},
                {{x.dtype, x.shape}, {DType::kF32, statistics}, {DType::kF32, statistics}});
    return {made[0], made[1], made[2]};
  }
  std::vector<int64_t> dims(static_cast<size_t>(x.rank() - axis));
  std::iota(dims.begin(), dims.end(), axis);
  const Tensor wide = e.cast(x, DType::kF32);
  const Tensor mean = e.reduce("mean", wide, dims, true), centred = e.sub(wide, mean);
  const Tensor variance = e.reduce("mean", e.mul(centred, centred), dims, true);
  const Tensor inverse = e.unary("rsqrt", e.with("add", variance, p.epsilon));
  Tensor y = e.mul(e.cast(e.mul(centred, inverse), x.dtype), p.weight);
  if (p.bias.present) y = e.add(y, p.bias);
  return {y, mean, inverse};
}

Tensor rms_normalised(Emitter& e, const Tensor& x, const NormParameters& p) {
  std::vector<int64_t> dims(static_cast<size_t>(x.rank() - p.axis));
  std::iota(dims.begin(), dims.end(), p.axis);
  const Tensor wide = e.cast(x, DType::kF32);
  const Tensor squares = e.reduce("mean", e.mul(wide, wide), dims, true);
  const Tensor inverse = e.unary("rsqrt", e.with("add", squares, p.epsilon));
  return e.mul(e.cast(e.mul(wide, inverse), p.weight.dtype), p.weight);
}

void rms_norm(OpContext& c) {
  const Tensor& x = c.in(0);
  c.out(0, rms_normalised(c.e, x,
                          {.weight = c.in(1),
                           .bias = {},
                           .axis = c.axis("axis", -1, x.rank()),
                           .epsilon = c.f("epsilon", 1e-5f)}));
}

namespace {

void layer_norm(OpContext& c) {
  const Tensor& x = c.in(0);
  const Normalised made = layer_normalised(c.e, x,
                                           {.weight = c.in(1),
                                            .bias = c.maybe(2),
                                            .axis = c.axis("axis", -1, x.rank()),
                                            .epsilon = c.f("epsilon", 1e-5f)});
  c.out(0, made.y);
  c.out(1, made.mean);
  c.out(2, made.inverse);
}

void lp_norm(OpContext& c) {
  const Tensor& x = c.in(0);
  Emitter& e = c.e;
  const int64_t axis = c.axis("axis", -1, x.rank());
  const bool l1 = c.i("p", 2) == 1;
  const Tensor sums = e.reduce("sum", l1 ? e.unary("abs", x) : e.mul(x, x), {axis}, true);
  const Tensor norm = l1 ? sums : e.unary("sqrt", sums);
  const Tensor zero = e.number(x.dtype, 0);
  c.out(0, e.where(e.with("eq", norm, 0), zero, e.div(x, norm)));
}

void mean_variance_norm(OpContext& c) {
  const Tensor& x = c.in(0);
  Emitter& e = c.e;
  std::vector<int64_t> axes = c.ints("axes");
  if (axes.empty()) axes = {0, 2, 3};
  const Tensor centred = e.sub(x, e.reduce("mean", x, axes, true));
  const Tensor deviation = e.unary("sqrt", e.reduce("mean", e.mul(centred, centred), axes, true));
  c.out(0, e.div(centred, e.with("add", deviation, 1e-9)));
}

// x / (bias + alpha / size * sum of squares of neighbouring channels) ^ beta
void lrn(OpContext& c) {
  const Tensor& x = c.in(0);
  Emitter& e = c.e;
  const int64_t size = c.i("size", 0);
  if (size < 1 || size > 4096 || x.rank() < 3) throw Error(ErrorKind::kUser, "size or rank");
  const Expr channels = x.shape[1];
  std::vector<Expr> pads(static_cast<size_t>(2 * (x.rank() - 1)), Expr(0));
  pads[pads.size() - 2] = (size - 1) / 2;
  pads[pads.size() - 1] = size - 1 - (size - 1) / 2;
  const Tensor squares = e.pad(e.mul(x, x), pads, 0);
  Tensor sums = e.slice(squares, 1, 0, channels);
  for (int64_t k = 1; k < size; ++k) {
    sums = e.add(sums, e.slice(squares, 1, k, channels + Expr(k)));
  }
  const double scale = c.f("alpha", 1e-4f) / static_cast<double>(size);
  const Tensor base = e.with("add", e.with("mul", sums, scale), c.f("bias", 1.0));
  c.out(0, e.div(x, e.with("pow", base, c.f("beta", 0.75))));
}

// Before opset 13 the dimensions from `axis` on are one.
Tensor rows_of(OpContext& c, const Tensor& x, int64_t* axis) {
  if (c.opset() >= 13) {
    *axis = c.axis("axis", -1, x.rank());
    return x;
  }
  const auto at = static_cast<size_t>(c.axis("axis", 1, x.rank()));
  *axis = 1;
  const std::span<const Expr> dims(x.shape);
  return c.e.reshape(x, {product(dims.first(at)), product(dims.subspan(at))});
}

void softmax(OpContext& c) {
  int64_t axis = 0;
  const Tensor rows = rows_of(c, c.in(0), &axis);
  c.out(0, c.e.reshape(c.e.softmax(rows, axis, c.type() == "LogSoftmax"), c.in(0).shape));
}

void hardmax(OpContext& c) {
  int64_t axis = 0;
  Emitter& e = c.e;
  const Tensor rows = rows_of(c, c.in(0), &axis);
  Shape shape = rows.shape, places(rows.shape.size(), Expr(1));
  shape[static_cast<size_t>(axis)] = 1;
  places[static_cast<size_t>(axis)] = rows.shape[static_cast<size_t>(axis)];
  const DType index = DType::kI64;
  const Tensor best = e.node(
      "aten::argmax", {e.arg("self", rows), attr_arg("dim", Expr(axis)), attr_arg("keepdim", true)},
      index, shape);
  const Tensor each = e.reshape(e.arange(rows.shape[static_cast<size_t>(axis)], index), places);
  c.out(0, e.reshape(e.cast(e.compare("eq", best, each), rows.dtype), c.in(0).shape));
}

const RegisterOnnx ops{{"BatchNormalization", batch_norm},
                       {"InstanceNormalization", instance_norm},
                       {"GroupNormalization", group_norm},
                       {"LayerNormalization", layer_norm},
                       {"RMSNormalization", rms_norm},
                       {"LpNormalization", lp_norm},
                       {"MeanVarianceNormalization", mean_variance_norm},
                       {"LRN", lrn},
                       {"Softmax", softmax},
                       {"LogSoftmax", softmax},
                       {"Hardmax", hardmax}};

}  // namespace
}  // namespace tv::onnx

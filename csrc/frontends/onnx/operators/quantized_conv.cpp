// Convolutions of integers.

#include "csrc/frontends/onnx/kit/scales.h"
#include "csrc/frontends/onnx/kit/window.h"
#include "csrc/frontends/onnx/operators/quantised_values.h"

namespace tv::onnx {
namespace {

// Numbers of output channels, against a weight (dimension 0) or a result (dimension 1).
Tensor along_channels(Emitter& e, const Tensor& t, int64_t rank, int64_t dim) {
  if (t.rank() == 0) return t;
  if (t.rank() != 1) throw Error(ErrorKind::kUser, "a scale or zero point of rank above 1");
  Shape shape(static_cast<size_t>(rank), Expr(1));
  shape[static_cast<size_t>(dim)] = t.shape[0];
  return e.reshape(t, shape);
}

Tensor one(Emitter& e, const Tensor& t) {
  if (!t.present || t.rank() == 0) return t;
  if (!(e.numel(t) == Expr(1))) throw Error(ErrorKind::kUser, "want one scale and zero point");
  return e.reshape(t, {});
}

Tensor vector_of(Emitter& e, const Tensor& t) {
  if (!t.present) return t;
  if (t.rank() > 1) throw Error(ErrorKind::kUser, "a zero point of rank above 1");
  return e.reshape(t, {e.numel(t)});
}

Tensor product(OpContext& c, const Tensor& x, const Tensor& x_zero, const Tensor& weight,
               const Tensor& weight_zero) {
  return convolved_integers(c, x, vector_of(c.e, one(c.e, x_zero)), weight,
                            vector_of(c.e, weight_zero));
}

void conv_integer(OpContext& c) { c.out(0, product(c, c.in(0), c.maybe(2), c.in(1), c.maybe(3))); }

// x, its scale and zero point, weight, its, the result's, bias.
Tensor qlinear_conv_of(OpContext& c, const Tensor& x) {
  Emitter& e = c.e;
  Tensor sum = product(c, x, c.in(2), c.in(3), c.in(5));
  const int64_t rank = sum.rank();
  if (c.has(8)) sum = e.add(sum, along_channels(e, c.in(8), rank, 1));
  const auto wide = [&](const Tensor& t) { return e.cast(t, DType::kF32); };
  const Tensor scale =
      e.div(e.mul(one(e, wide(scale_in(c, 1))), along_channels(e, wide(scale_in(c, 4)), rank, 1)),
            one(e, wide(step_in(c, 6))));
  const DType dtype = c.in(7).dtype;
  if (dtype != DType::kU8 && dtype != DType::kI8) {
    refuse("a zero point of type " + std::string(name(dtype)));
  }
  return stepped(e, e.mul(e.cast(sum, DType::kF32), scale), one(e, c.in(7)), dtype);
}

void qlinear_conv(OpContext& c) { c.out(0, qlinear_conv_of(c, c.in(0))); }

// com.microsoft's: channels may be the last dimension of x and of the result.
void qlinear_conv_of_either(OpContext& c) {
  c.only({"auto_pad", "channels_last", "dilations", "group", "kernel_shape", "pads", "strides"});
  const Tensor& x = c.in(0);
  if (c.i("channels_last", 0) == 0) return qlinear_conv(c);
  std::vector<int64_t> first = {0, x.rank() - 1}, last = {0};
  for (int64_t d = 1; d < x.rank() - 1; ++d) first.push_back(d);
  for (int64_t d = 2; d < x.rank(); ++d) last.push_back(d);
  last.push_back(1);
  c.out(0, c.e.permute(qlinear_conv_of(c, c.e.permute(x, first)), last));
}

const RegisterOnnx ops{{"ConvInteger", conv_integer},
                       {"QLinearConv", qlinear_conv},
                       {"com.microsoft::QLinearConv", qlinear_conv_of_either}};

}  // namespace
}  // namespace tv::onnx

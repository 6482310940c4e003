// Products of matrices.

#include "csrc/frontends/onnx/host_ops.h"

namespace tv::onnx {
namespace {

void matmul(OpContext& c) { c.out(0, c.e.matmul(c.in(0), c.in(1))); }

// alpha A' B' + beta C
void gemm(OpContext& c) {
  Emitter& e = c.e;
  Tensor a = c.in(0), b = c.in(1);
  if (a.rank() != 2 || b.rank() != 2) throw Error(ErrorKind::kUser, "want matrices");
  const double alpha = c.f("alpha", 1), beta = c.f("beta", 1);
  if (c.i("transA", 0)) a = e.transpose(a, 0, 1);
  if (c.i("transB", 0)) b = e.transpose(b, 0, 1);
  const Tensor bias = beta == 0 ? Tensor{} : c.maybe(2);
  e.same(a.shape[1], b.shape[0]);
  const Shape shape = {a.shape[0], b.shape[1]};
  if (bias.present && is_float(a.dtype)) {
    return c.out(0, e.node("aten::addmm",
                           {e.arg("self", bias), e.arg("mat1", a), e.arg("mat2", b),
                            attr_arg("beta", beta), attr_arg("alpha", alpha)},
                           a.dtype, e.broadcast(shape, bias.shape)));
  }
  Tensor y = e.matmul(a, b);
  if (alpha != 1) y = e.with("mul", y, alpha);
  if (bias.present) y = e.add(y, beta == 1 ? bias : e.with("mul", bias, beta));
  c.out(0, y);
}

const RegisterOnnx ops{{"MatMul", matmul}, {"Gemm", gemm}};

}  // namespace
}  // namespace tv::onnx

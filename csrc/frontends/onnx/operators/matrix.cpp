// Products of matrices.

#include "csrc/frontends/onnx/kit/host_ops.h"

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

// By the first row's minors, up to 4 x 4.
Tensor determinant(Emitter& e, const Tensor& x, int64_t size) {
  const auto at = [&](int64_t column) { return e.select(e.select(x, -2, 0), -1, column); };
  if (size == 1) return at(0);
  Tensor sum;
  for (int64_t i = 0; i < size; ++i) {
    const Tensor rest = e.slice(x, -2, 1, size);
    std::vector<Tensor> columns;
    if (i > 0) columns.push_back(e.slice(rest, -1, 0, i));
    if (i + 1 < size) columns.push_back(e.slice(rest, -1, i + 1, size));
    const Tensor minor = columns.size() == 1 ? columns[0] : e.cat(columns, x.rank() - 1);
    const Tensor term = e.mul(at(i), determinant(e, minor, size - 1));
    sum = !sum.present ? term : i % 2 ? e.sub(sum, term) : e.add(sum, term);
  }
  return sum;
}

void det(OpContext& c) {
  const Tensor& x = c.in(0);
  if (x.rank() < 2) throw Error(ErrorKind::kUser, "want matrices");
  const auto rows = x.shape[x.shape.size() - 2].constant(), columns = x.shape.back().constant();
  if (!rows || !columns) refuse("matrices of dynamic size");
  if (*rows != *columns || *rows < 1) throw Error(ErrorKind::kUser, "want square matrices");
  if (*rows > 4) refuse("a determinant of more than 4 rows");
  c.out(0, determinant(c.e, x, *rows));
}

const RegisterOnnx ops{{"MatMul", matmul}, {"Gemm", gemm}, {"Det", det}};

}  // namespace
}  // namespace tv::onnx

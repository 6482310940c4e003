// com.microsoft's products with weights of 2, 4 and 8 bits (ONNX Runtime,
// docs/ContribOperators.md). Those of 2 bits become 4 each (csrc/graph/quantised.h), in the weight
// program.

#include <algorithm>

#include "csrc/frontends/onnx/kit/scales.h"

namespace tv::onnx {
namespace {

/// What MatMulNBits' attributes say of its weight, [columns, steps] in blocks of a row.
struct Weight {
  int64_t steps = 0, columns = 0, bits = 4, block = 0, blocks = 0;
};

Weight weight_of(OpContext& c) {
  Weight w{c.i("K", 0), c.i("N", 0), c.i("bits", 4), c.i("block_size", 0), 0};
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const int64_t size : {w.steps, w.columns, w.block}) {
    if (size < 1 || size >= kMost) {
      throw Error(ErrorKind::kUser, "K, N and block_size must be positive, and less than 2^31");
    }
  }
  if (w.bits != 2 && w.bits != 4 && w.bits != 8) {
    refuse("weights of " + std::to_string(w.bits) + " bits; 2, 4 and 8 would work");
  }
  if (w.steps % w.block || w.steps * w.bits % 8) {
    refuse("rows of " + std::to_string(w.steps) + " elements in blocks of " +
           std::to_string(w.block));
  }
  checked_count({w.columns, w.steps, w.bits}, "the bits of a weight of K and N");
  w.blocks = w.steps / w.block;
  return w;
}

void want_elements(const Tensor& x, int64_t count, DType dtype, const char* what) {
  if (x.dtype == dtype && product(x.shape) == Expr(count)) return;
  throw Error(ErrorKind::kUser, std::string(what) + " has " + product(x.shape).str() +
                                    " elements of " + std::string(name(x.dtype)) + ", want " +
                                    std::to_string(count) + " of " + std::string(name(dtype)));
}

Tensor with_number(Emitter& e, const char* op, const Tensor& x, int64_t number) {
  return e.node(op, {e.arg("self", x), attr_arg("other", Expr(number))}, DType::kU8, x.shape);
}

/// The two elements of `bits` that each number of a matrix holds, the lower one first.
Tensor halves(Emitter& e, const Tensor& x, int64_t bits) {
  const Tensor pairs = e.reshape(x, {x.shape[0], x.shape[1], Expr(1)});
  const Tensor low = with_number(e, "aten::bitwise_and.Scalar", pairs, (1 << bits) - 1);
  const Tensor high = with_number(e, "aten::bitwise_right_shift.Tensor_Scalar", pairs, bits);
  return e.reshape(e.cat({low, high}, 2), {x.shape[0], x.shape[1] * Expr(2)});
}

/// [columns, blocks] of uint8, which a file packs as it does elements; rows begin with a byte.
Tensor zero_points(OpContext& c, const Weight& w, const Tensor& packed) {
  Emitter& e = c.e;
  if (is_float(packed.dtype)) refuse("zero points that are floating-point numbers");
  const int64_t bytes = (w.blocks * w.bits + 7) / 8;
  want_elements(packed, w.columns * bytes, DType::kU8, "zero_points");
  Tensor all = e.reshape(packed, {Expr(w.columns), Expr(bytes)});
  for (int64_t bits = 4; bits >= w.bits; bits /= 2) all = halves(e, all, bits);
  return e.slice(all, 1, 0, Expr(w.blocks));
}

/// Elements of 2 bits as such of 4, two a byte.
Tensor as_four_bits(Emitter& e, const Tensor& packed) {
  const Tensor pairs = halves(e, packed, 4);  // of elements
  const Tensor seconds = with_number(e, "aten::bitwise_and.Scalar", pairs, 12);
  // The second one is shifted by two more: four times what it was.
  return e.node("aten::add.Tensor",
                {e.arg("self", pairs), e.arg("other", seconds), attr_arg("alpha", Expr(3))},
                DType::kU8, pairs.shape);
}

void matmul_nbits(OpContext& c) {
  Emitter& e = c.e;
  const Weight w = weight_of(c);
  const Tensor& a = c.in(0);
  if (c.has(4)) refuse("a group index (g_idx)");
  if (a.rank() < 1 || !is_float(a.dtype)) throw Error(ErrorKind::kUser, "A is not of floats");
  e.require(a.shape.back(), Relation::kEqual, Expr(w.steps));
  want_elements(c.in(1), w.columns * w.steps * w.bits / 8, DType::kU8, "B");
  want_elements(c.in(2), w.columns * w.blocks, a.dtype, "scales");
  const Shape blocks = {Expr(w.columns), Expr(w.blocks)};
  Tensor zero;
  if (c.has(3)) {
    zero = zero_points(c, w, c.in(3));
  } else if (w.bits != 4) {
    zero = e.full(blocks, DType::kU8, int64_t{1} << (w.bits - 1));
  }
  Tensor packed = e.reshape(c.in(1), {Expr(w.columns), Expr(w.steps * w.bits / 8)});
  if (w.bits == 2) packed = as_four_bits(e, packed);
  const Tensor weight =
      e.node("tv::dequantize",
             {e.arg("input", packed), e.arg("scale", e.reshape(scale_in(c, 2), blocks)),
              e.arg("zero_point", zero), attr_arg("bits", Expr(std::max<int64_t>(w.bits, 4)))},
             a.dtype, {Expr(w.columns), Expr(w.steps)});
  Shape out = a.shape;
  out.back() = Expr(w.columns);
  c.out(0, e.node("aten::linear",
                  {e.arg("input", a), e.arg("weight", weight), e.arg("bias", c.maybe(5))}, a.dtype,
                  out));
}

const RegisterOnnx ops{{"com.microsoft::MatMulNBits", matmul_nbits}};

}  // namespace
}  // namespace tv::onnx

#include "csrc/frontends/onnx/emit/uint64.h"

#include <cstdint>

namespace tv::onnx {
namespace {

Tensor number(Emitter& e, int64_t value) {
  Host host{.dtype = DType::kI64};
  host.ints = {value};
  return e.from_host(std::move(host));
}

Tensor at_least(Emitter& e, const Tensor& a, const Tensor& b) {
  return e.compare("ge", ordered(e, a), ordered(e, b));
}

/// Half of it, rounded down: an int64 that is not negative.
Tensor half(Emitter& e, const Tensor& x) {
  return e.binary("bitwise_and", e.binary("bitwise_right_shift", x, number(e, 1)),
                  number(e, INT64_MAX));
}

}  // namespace

Tensor ordered(Emitter& e, const Tensor& x) {
  if (!is_uint64(x)) return x;
  Tensor made = e.binary("bitwise_xor", x, number(e, INT64_MIN));
  made.widened = x.widened;
  return made;
}

// Half of a, divided and doubled, is the quotient or one less (Hacker's Delight, section 9-3). By a
// number from 2^63 on it is 0 or 1.
Tensor unsigned_quotient(Emitter& e, const Tensor& a, const Tensor& b) {
  const Tensor near =
      e.binary("bitwise_left_shift", e.divide(half(e, a), b, "trunc"), number(e, 1));
  Tensor rest = e.sub(a, e.mul(near, b));
  rest.widened = a.widened;
  const Tensor by_small = e.add(near, e.cast(at_least(e, rest, b), DType::kI64));
  const Tensor by_large = e.cast(at_least(e, a, b), DType::kI64);
  return e.where(e.with("lt", b, 0), by_large, by_small);
}

Tensor unsigned_remainder(Emitter& e, const Tensor& a, const Tensor& b) {
  return e.sub(a, e.mul(unsigned_quotient(e, a, b), b));
}

Tensor unsigned_shift_right(Emitter& e, const Tensor& x, const Tensor& by) {
  const Tensor above = e.binary("bitwise_left_shift", number(e, -2), e.sub(number(e, 63), by));
  return e.binary("bitwise_and", e.binary("bitwise_right_shift", x, by),
                  e.unary("bitwise_not", above));
}

// Half of a number from 2^63 on has more bits than the type: that the lowest is set if one that
// goes was, rounds it as the whole would be.
Tensor uint64_to_float(Emitter& e, const Tensor& x, DType to) {
  const Tensor lowest = e.binary("bitwise_and", x, number(e, 1));
  const Tensor halved = e.cast(e.binary("bitwise_or", half(e, x), lowest), to);
  return e.where(e.with("lt", x, 0), e.with("mul", halved, 2), e.cast(x, to));
}

Tensor uint64_of_float(Emitter& e, const Tensor& x) {
  constexpr double kMiddle = 9223372036854775808.0;  // 2^63
  const Tensor wide =
      x.dtype == DType::kF16 || x.dtype == DType::kBF16 ? e.cast(x, DType::kF32) : x;
  const Tensor large = e.binary("bitwise_xor", e.cast(e.with("sub", wide, kMiddle), DType::kI64),
                                number(e, INT64_MIN));
  return e.where(e.with("ge", wide, kMiddle), large, e.cast(wide, DType::kI64));
}

}  // namespace tv::onnx

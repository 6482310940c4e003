#include "csrc/frontends/onnx/kit/scales.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "csrc/graph/quantised.h"
#include "runtime/base/error.h"

namespace tv::onnx {

namespace {

/// What scales may be.
enum class Wanted : uint8_t { kFinite, kPositive };

const char* name_of(Wanted wanted) {
  return wanted == Wanted::kFinite ? "finite" : "positive finite";
}

/// Whether the code of a small floating-point number is of a number, and a positive one if wanted.
bool is_good(const std::string& format, int64_t code, Wanted wanted) {
  if (format == "float8_e8m0fnu") return code != 0xff;
  if (wanted == Wanted::kFinite) {
    if (format.ends_with("fnuz")) return code != 0x80;
    if (format == "float4_e2m1fn") return true;
    code &= 0x7f;
  }
  const int64_t past = format == "float8_e4m3fn" ? 0x7f : format == "float8_e5m2" ? 0x7c : 0x80;
  return code >= (wanted == Wanted::kPositive ? 1 : 0) && code < past;
}

std::string named(const Tensor& scale) {
  return "scale \"" + (scale.stored ? scale.stored->name : "of a constant") + "\": ";
}

/// Throws where codes of scales are not those of such numbers.
void check_codes(const Tensor& scale, const std::string& format, const Host& codes, Wanted wanted) {
  for (size_t i = 0; i < codes.ints.size(); ++i) {
    const int64_t code = codes.ints[i].constant().value_or(0);
    if (is_good(format, code, wanted)) continue;
    throw Error(ErrorKind::kUser, named(scale) + "the code " + std::to_string(code) + " at " +
                                      std::to_string(i) + " is of no " + name_of(wanted) +
                                      " number of " + format);
  }
}

const Tensor& checked(OpContext& c, size_t i, Wanted wanted) {
  const Tensor& scale = c.in(i);
  const auto host = scale.host ? scale.host : scale.stored ? read_host(*scale.stored) : nullptr;
  if (!host) return scale;
  if (scale.stored) c.e.note_read(*scale.stored);
  if (const std::string format = small_float(scale.widened); !format.empty()) {
    check_codes(scale, format, *host, wanted);
    return scale;
  }
  const auto wrong = [&](double value) {
    return !std::isfinite(value) || (wanted == Wanted::kPositive && value <= 0);
  };
  const auto count = std::ranges::count_if(host->floats, wrong);
  if (count == 0) return scale;
  const auto first = std::ranges::find_if(host->floats, wrong);
  throw Error(ErrorKind::kUser,
              named(scale) + std::to_string(count) + " of " + std::to_string(host->floats.size()) +
                  " are not " + name_of(wanted) + " numbers; the first is " +
                  std::to_string(*first) + " at " + std::to_string(first - host->floats.begin()));
}

}  // namespace

Tensor decoded(Emitter& e, const Tensor& x) {
  const std::string format = small_float(x.widened);
  if (format.empty()) return x;
  return e.node("tv::dequantize",
                {e.arg("input", x), e.arg("scale", Tensor{}), e.arg("zero_point", Tensor{}),
                 attr_arg("bits", Expr(8)), attr_arg("format", format)},
                DType::kF32, x.shape);
}

Tensor encoded(Emitter& e, const Tensor& x, int32_t onnx_type, bool saturate) {
  const std::string format = small_float(onnx_type);
  if (largest_of(format) == 0) refuse("no casts to " + type_name(onnx_type) + " are known");
  Tensor made = e.node("tv::to_small_float",
                       {e.arg("self", e.cast(decoded(e, x), DType::kF32)),
                        attr_arg("format", format), attr_arg("saturate", saturate)},
                       DType::kU8, x.shape);
  made.widened = onnx_type;
  return made;
}

Tensor wrapped(Emitter& e, const Tensor& x, int32_t onnx_type) {
  const DType held = dtype_of(onnx_type, true);
  const int64_t bits = stored_bytes(onnx_type, 8);
  Tensor made = e.cast(x, held == DType::kI64 ? held : DType::kI32);
  if (is_uint64(onnx_type)) {  // has the width of what holds it
    made.widened = onnx_type;
    return made;
  }
  made = e.with("bitwise_and", made, static_cast<double>((int64_t{1} << bits) - 1));
  if (held == DType::kI8) {  // signed
    const auto half = static_cast<double>(int64_t{1} << (bits - 1));
    made = e.with("sub", e.with("bitwise_xor", made, half), half);
  }
  made = e.cast(made, held);
  made.widened = onnx_type;
  return made;
}

const Tensor& scale_in(OpContext& c, size_t i) { return checked(c, i, Wanted::kFinite); }

const Tensor& step_in(OpContext& c, size_t i) { return checked(c, i, Wanted::kPositive); }

}  // namespace tv::onnx

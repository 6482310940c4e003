#include "csrc/codegen/glsl_types.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "runtime/base/error.h"

namespace tv {

namespace {

[[noreturn]] void no_type(DType dtype) {
  throw Error(ErrorKind::kInternal,
              "[codegen] no kernel computes with " + std::string(name(dtype)));
}

}  // namespace

GlslClass glsl_class(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return GlslClass::kFloat;
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU8:
      return GlslClass::kInt;
    case DType::kI64:
      return GlslClass::kInt64;
    case DType::kBool:
      return GlslClass::kBool;
    case DType::kF64:
    case DType::kOther:
      break;
  }
  no_type(dtype);
}

std::string glsl_type(DType dtype) {
  switch (glsl_class(dtype)) {
    case GlslClass::kFloat:
      return "float";
    case GlslClass::kInt64:
      return "int64_t";
    case GlslClass::kInt:
    case GlslClass::kBool:
      break;
  }
  return "int";
}

std::string glsl_value_type(DType dtype) {
  return glsl_class(dtype) == GlslClass::kBool ? "bool" : glsl_type(dtype);
}

std::string glsl_storage_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kF16:
    case DType::kBF16:
      return "uint16_t";
    case DType::kI64:
      return "int64_t";
    case DType::kI32:
      return "int";
    case DType::kI16:
      return "int16_t";
    case DType::kI8:
      return "int8_t";
    case DType::kU8:
    case DType::kBool:
      return "uint8_t";
    case DType::kF64:
    case DType::kOther:
      break;
  }
  no_type(dtype);
}

std::string glsl_reference(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "tv_ref_f32";
    case DType::kF16:
    case DType::kBF16:
      return "tv_ref_u16";
    case DType::kI64:
      return "tv_ref_i64";
    case DType::kI32:
      return "tv_ref_i32";
    case DType::kI16:
      return "tv_ref_i16";
    case DType::kI8:
      return "tv_ref_i8";
    case DType::kU8:
    case DType::kBool:
      return "tv_ref_u8";
    case DType::kF64:
    case DType::kOther:
      break;
  }
  no_type(dtype);
}

std::string glsl_from_storage(const std::string& expr, DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
    case DType::kI64:
      return expr;
    case DType::kF16:
      return "tv_from_f16(uint(" + expr + "))";
    case DType::kBF16:
      return "tv_from_bf16(uint(" + expr + "))";
    case DType::kBool:
      return "int(uint(" + expr + ") != 0u)";
    default:
      return "int(" + expr + ")";
  }
}

std::string glsl_to_storage(const std::string& expr, DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
    case DType::kI64:
      return expr;
    case DType::kF16:
      return "uint16_t(tv_to_f16(" + expr + "))";
    case DType::kBF16:
      return "uint16_t(tv_to_bf16(" + expr + "))";
    case DType::kBool:
      return "uint8_t((" + expr + ") != 0 ? 1u : 0u)";
    case DType::kU8:
      return "uint8_t(uint(" + expr + ") & 0xffu)";
    default:
      return glsl_storage_type(dtype) + "(" + expr + ")";
  }
}

std::string glsl_convert(const std::string& expr, DType from, DType to, bool round) {
  const GlslClass a = glsl_class(from), b = glsl_class(to);
  std::string text = expr;
  if (a != b) {
    switch (b) {
      case GlslClass::kFloat:
        text = "float(" + text + ")";
        break;
      case GlslClass::kInt:
        text = "int(" + text + ")";
        break;
      case GlslClass::kInt64:
        // Not int64_t(int(b)): Mesa 22 compares and shifts what it makes of that wrongly.
        text = a == GlslClass::kBool ? "packInt2x32(ivec2(int(" + text + "), 0))"
                                     : "int64_t(" + text + ")";
        break;
      case GlslClass::kBool:
        return "(" + text + " != " +
               (a == GlslClass::kFloat ? "0.0"
                : a == GlslClass::kInt ? "0"
                                       : "0L") +
               ")";
    }
  }
  if (b == GlslClass::kInt && from != to) {
    if (to == DType::kU8) return "(" + text + " & 0xff)";
    if (to == DType::kI8) return "bitfieldExtract(" + text + ", 0, 8)";
    if (to == DType::kI16 && from != DType::kI8 && from != DType::kU8) {
      return "bitfieldExtract(" + text + ", 0, 16)";
    }
  }
  if (round && from != to) {
    if (to == DType::kF16) return "tv_from_f16(tv_to_f16(" + text + "))";
    if (to == DType::kBF16) return "tv_from_bf16(tv_to_bf16(" + text + "))";
  }
  return text;
}

std::string glsl_literal(double value, DType dtype) {
  switch (glsl_class(dtype)) {
    case GlslClass::kFloat:
      break;
    case GlslClass::kBool:
      return value != 0 ? "true" : "false";
    default:
      return glsl_literal(static_cast<int64_t>(value), dtype);
  }
  const float f = static_cast<float>(value);
  char text[48];
  if (!std::isfinite(f) || (f != 0 && std::fabs(f) < std::numeric_limits<float>::min())) {
    std::snprintf(text, sizeof text, "uintBitsToFloat(0x%08xu)", std::bit_cast<uint32_t>(f));
    return text;
  }
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(f));
  std::string s = text;
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return f < 0 || std::signbit(f) ? "(" + s + ")" : s;
}

std::string glsl_literal(int64_t value, DType dtype) {
  // Numbers wrap to the type that they are computed in, as a tensor's elements do.
  if (dtype == DType::kU8) value = static_cast<uint8_t>(value);
  if (dtype == DType::kI8) value = static_cast<int8_t>(value);
  if (dtype == DType::kI16) value = static_cast<int16_t>(value);
  switch (glsl_class(dtype)) {
    case GlslClass::kFloat:
      return glsl_literal(static_cast<double>(value), dtype);
    case GlslClass::kBool:
      return value != 0 ? "true" : "false";
    case GlslClass::kInt: {
      // int(0x80000000u), not -2147483648: that is a unary minus on a literal out of range.
      char text[32];
      std::snprintf(text, sizeof text, "int(0x%xu)", static_cast<uint32_t>(value));
      return value >= 0 && value < (1LL << 31) ? std::to_string(value) : text;
    }
    case GlslClass::kInt64:
      break;
  }
  if (value >= 0) return std::to_string(value) + "L";
  char text[48];
  std::snprintf(text, sizeof text, "int64_t(0x%llxUL)", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace tv

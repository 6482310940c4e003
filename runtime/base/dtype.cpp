#include "runtime/base/dtype.h"

#include <array>
#include <utility>

namespace tv {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 11> kNames = {{
    {DType::kOther, "other"},
    {DType::kF32, "float32"},
    {DType::kF16, "float16"},
    {DType::kBF16, "bfloat16"},
    {DType::kF64, "float64"},
    {DType::kI64, "int64"},
    {DType::kI32, "int32"},
    {DType::kI16, "int16"},
    {DType::kI8, "int8"},
    {DType::kU8, "uint8"},
    {DType::kBool, "bool"},
}};

}  // namespace

std::string_view name(DType dtype) {
  for (const auto& [d, text] : kNames) {
    if (d == dtype) return text;
  }
  return "other";
}

DType dtype_from_name(std::string_view text) {
  for (const auto& [d, known] : kNames) {
    if (known == text) return d;
  }
  return DType::kOther;
}

}  // namespace tv

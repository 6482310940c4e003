#pragma once
// Element types of tensors.

#include <cstdint>
#include <string_view>

namespace tv {

enum class DType : uint8_t {
  kOther = 0,  ///< complex, quantised, not a tensor: never inside an engine
  kF32,
  kF16,
  kBF16,
  kF64,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
};

/// Size of one element in memory; 0 for kOther.
constexpr int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
    case DType::kOther:
      return 0;
  }
  return 0;
}

constexpr bool is_float(DType d) {
  return d == DType::kF32 || d == DType::kF16 || d == DType::kBF16 || d == DType::kF64;
}
constexpr bool is_integer(DType d) {  // bool is not an integer
  return d == DType::kI64 || d == DType::kI32 || d == DType::kI16 || d == DType::kI8 ||
         d == DType::kU8;
}

/// Whether a number can be a value of this type: ints within its range; floats round, but 16-bit
/// ones end where they do; bool takes any.
bool holds(DType dtype, int64_t number);

/// "float32", "bfloat16", "int64", "bool", …: torch's names.
std::string_view name(DType dtype);
/// The inverse of `name`; kOther if the name is not known.
DType dtype_from_name(std::string_view name);

}  // namespace tv

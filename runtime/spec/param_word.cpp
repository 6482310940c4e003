// What a kernel is passed of a 64-bit number: exactly it, or an error.

#include <bit>
#include <cmath>
#include <string>

#include "runtime/base/error.h"
#include "runtime/spec/engine_spec.h"

namespace tv {
namespace {

[[noreturn]] void fail_number(int64_t value, const std::string& want) {
  throw Error(ErrorKind::kUnsupported,
              "a number is " + std::to_string(value) + " here, which " + want);
}

uint32_t index_word(int64_t value) {
  if (value < -(int64_t{1} << 31) || value >= int64_t{1} << 32)
    fail_number(value, "kernels, which count in 32 bits, cannot take for a size or an offset");
  return static_cast<uint32_t>(value);
}

uint32_t number_word(const NumberWord& word, int64_t value) {
  if (!holds(word.dtype, value))
    fail_number(value, "does not fit " + std::string(name(word.dtype)));
  if (is_float(word.dtype)) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (word.dtype == DType::kBool) return value != 0 ? 1 : 0;
  return static_cast<uint32_t>(word.high ? value >> 32 : value);
}

}  // namespace

bool holds(DType dtype, int64_t number) {
  const auto within = [number](int64_t low, int64_t high) {
    return number >= low && number <= high;
  };
  switch (dtype) {
    case DType::kI32:
      return within(-(int64_t{1} << 31), (int64_t{1} << 31) - 1);
    case DType::kI16:
      return within(-(1 << 15), (1 << 15) - 1);
    case DType::kI8:
      return within(-(1 << 7), (1 << 7) - 1);
    case DType::kU8:
      return within(0, (1 << 8) - 1);
    case DType::kF16:
      return within(-65504, 65504);
    case DType::kF32:
    case DType::kBF16:
    case DType::kF64:
    case DType::kI64:
    case DType::kBool:
      return true;
    case DType::kOther:
      break;
  }
  return false;
}

const Expr* expr_of(const ParamWord& word) {
  if (const auto* number = std::get_if<NumberWord>(&word)) return &number->value;
  return std::get_if<Expr>(&word);
}

uint32_t word_at(const ParamWord& word, std::span<const int64_t> symbols) {
  if (const float* number = std::get_if<float>(&word)) return std::bit_cast<uint32_t>(*number);
  const int64_t value = expr_of(word)->eval(symbols);
  const auto* number = std::get_if<NumberWord>(&word);
  return number != nullptr ? number_word(*number, value) : index_word(value);
}

}  // namespace tv

#include "tests/cpp/kit/interpreter/arithmetic.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tv::interpreter {

namespace {

[[noreturn]] void unknown(const std::string& what) { throw Fault(what + " is not interpreted"); }

bool compare_floats(uint16_t op, const Type& type, uint64_t a, uint64_t b) {
  const double x = to_double(a, type), y = to_double(b, type);
  const bool unordered = std::isnan(x) || std::isnan(y);
  if (unordered)
    return (op - op::kFOrdEqual) % 2 == 1;  // each ordered one is followed by its unordered one
  switch ((op - op::kFOrdEqual) / 2) {
    case 0:
      return x == y;
    case 1:
      return x != y;
    case 2:
      return x < y;
    case 3:
      return x > y;
    case 4:
      return x <= y;
    default:
      return x >= y;
  }
}

bool compare_integers(uint16_t op, uint32_t bits, uint64_t x, uint64_t y) {
  const int64_t s = signed_of(x, bits), t = signed_of(y, bits);
  switch (op) {
    case op::kIEqual:
      return x == y;
    case op::kINotEqual:
      return x != y;
    case op::kUGreaterThan:
      return x > y;
    case op::kSGreaterThan:
      return s > t;
    case op::kUGreaterThanEqual:
      return x >= y;
    case op::kSGreaterThanEqual:
      return s >= t;
    case op::kULessThan:
      return x < y;
    case op::kSLessThan:
      return s < t;
    case op::kULessThanEqual:
      return x <= y;
    default:
      return s <= t;
  }
}

uint64_t divide(uint16_t op, uint32_t bits, uint64_t x, uint64_t y) {
  if (y == 0) throw Fault("an integer division by 0");
  const int64_t s = signed_of(x, bits), t = signed_of(y, bits);
  switch (op) {
    case op::kUDiv:
      return x / y;
    case op::kUMod:
      return x % y;
    case op::kSDiv:
      return t == -1 ? 0 - x : static_cast<uint64_t>(s / t);
    case op::kSRem:
      return t == -1 ? 0 : static_cast<uint64_t>(s % t);
    default: {  // OpSMod: the divisor's sign
      const int64_t r = t == -1 ? 0 : s % t;
      return static_cast<uint64_t>(r != 0 && (r < 0) != (t < 0) ? r + t : r);
    }
  }
}

uint64_t shift(uint16_t op, uint32_t bits, uint64_t x, uint64_t by) {
  if (by >= bits)
    throw Fault("a shift of " + std::to_string(bits) + " bits by " + std::to_string(by));
  if (op == op::kShiftRightLogical) return x >> by;
  if (op == op::kShiftLeftLogical) return x << by;
  return static_cast<uint64_t>(signed_of(x, bits) >> by);
}

uint64_t convert(uint16_t op, const Type& from, const Type& to, uint64_t x) {
  switch (op) {
    case op::kConvertFToU:
    case op::kConvertFToS: {
      const double value = std::trunc(to_double(x, from));
      if (std::isnan(value)) return 0;
      // What does not fit is not defined; the nearest that does, as GPUs give.
      if (op == op::kConvertFToU) {
        return value <= 0        ? 0
               : value >= 0x1p64 ? mask_of(to.bits)
                                 : std::min(static_cast<uint64_t>(value), mask_of(to.bits));
      }
      const double limit = std::ldexp(1.0, static_cast<int>(to.bits) - 1);
      if (value >= limit) return mask_of(to.bits - 1);
      return static_cast<uint64_t>(static_cast<int64_t>(std::max(value, -limit)));
    }
    case op::kConvertSToF: {
      const int64_t value = signed_of(x, from.bits);
      return to.bits == 32 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                           : from_double(static_cast<double>(value), to);
    }
    case op::kConvertUToF:
      return to.bits == 32 ? std::bit_cast<uint32_t>(static_cast<float>(x))
                           : from_double(static_cast<double>(x), to);
    case op::kSConvert:
      return static_cast<uint64_t>(signed_of(x, from.bits));
    case op::kFConvert:
      return from_double(to_double(x, from), to);
    default:  // OpUConvert, OpConvertPtrToU, OpConvertUToPtr
      return x;
  }
}

uint64_t unary(uint16_t op, const Type& type, uint64_t x) {
  switch (op) {
    case op::kSNegate:
      return 0 - x;
    case op::kFNegate:
      return x ^ uint64_t{1} << (type.bits - 1);
    case op::kNot:
      return ~x;
    case op::kLogicalNot:
      return x == 0;
    case op::kIsNan:
      return std::isnan(to_double(x, type));
    case op::kIsInf:
      return std::isinf(to_double(x, type));
    case op::kBitReverse: {
      uint64_t r = 0;
      for (uint32_t b = 0; b < type.bits; ++b) r |= (x >> b & 1) << (type.bits - 1 - b);
      return r;
    }
    case op::kBitCount:
      return static_cast<uint64_t>(std::popcount(x));
    default:
      return x;
  }
}

bool is_unary(uint16_t op) {
  return op == op::kSNegate || op == op::kFNegate || op == op::kNot || op == op::kLogicalNot ||
         op == op::kIsNan || op == op::kIsInf || op == op::kBitReverse || op == op::kBitCount;
}

bool is_conversion(uint16_t op) {
  return (op >= op::kConvertFToU && op <= op::kFConvert) || op == op::kConvertPtrToU ||
         op == op::kConvertUToPtr;
}

/// Bits of all components side by side, dealt out anew.
void bitcast(const Instruction& i, uint64_t* r) {
  const uint32_t from = i.from->bits, to = i.type->bits;
  const uint64_t* source = r + i.operands[0];
  std::vector<uint64_t> result(i.type->words, 0);
  for (uint32_t w = 0; w < i.type->words; ++w) {
    if (from == to) {
      result[w] = source[w];
    } else if (from < to) {
      for (uint32_t p = 0; p < to / from; ++p)
        result[w] |= source[w * (to / from) + p] << (p * from);
    } else {
      result[w] = source[w / (from / to)] >> (w % (from / to) * to) & mask_of(to);
    }
  }
  std::copy(result.begin(), result.end(), r + i.result);
}

/// Bit fields: insert, and extract with and without a sign.
uint64_t bit_field(const Instruction& i, const uint64_t* r, uint32_t w) {
  const auto at = [&](size_t k) { return r[i.operands[k]]; };
  const uint64_t base = r[i.operands[0] + w];
  const size_t k = i.op == op::kBitFieldInsert ? 2 : 1;
  const uint64_t offset = at(k), count = at(k + 1);
  if (offset + count > i.type->bits) throw Fault("a bit field beyond its number");
  if (count == 0) return i.op == op::kBitFieldInsert ? base : 0;
  const uint64_t field = mask_of(static_cast<uint32_t>(count));
  if (i.op == op::kBitFieldInsert) {
    return (base & ~(field << offset)) | (r[i.operands[1] + w] & field) << offset;
  }
  const uint64_t value = base >> offset & field;
  return i.op == op::kBitFieldUExtract
             ? value
             : static_cast<uint64_t>(signed_of(value, static_cast<uint32_t>(count)));
}

/// Instructions whose result is no component by component function of the operands.
bool compose(const Instruction& i, uint64_t* r) {
  const auto at = [&](size_t k) { return i.operands[k]; };
  switch (i.op) {
    case op::kCopyObject:
    case op::kCopyLogical:
      std::copy_n(r + at(0), i.type->words, r + i.result);
      return true;
    case op::kCompositeConstruct: {
      if (i.type->kind == Type::kMatrix) {
        std::fill_n(r + i.result, i.type->words, r[at(0)]);
        return true;
      }
      uint32_t to = i.result;
      for (size_t k = 0; k < i.operands.size(); k += 2) {
        std::copy_n(r + at(k), at(k + 1), r + to);
        to += at(k + 1);
      }
      return true;
    }
    case op::kCompositeInsert:
      std::copy_n(r + at(1), i.type->words, r + i.result);
      std::copy_n(r + at(0), at(3), r + i.result + at(2));
      return true;
    case op::kVectorShuffle:
      for (uint32_t w = 0; w < i.type->words; ++w) {
        const uint32_t from = at(2 + w), first = i.from->words;
        if (from == UINT32_MAX) continue;
        r[i.result + w] = from < first ? r[at(0) + from] : r[at(1) + from - first];
      }
      return true;
    case op::kVectorExtractDynamic:
      if (r[at(1)] >= i.from->words) throw Fault("a component beyond its vector");
      r[i.result] = r[at(0) + r[at(1)]];
      return true;
    case op::kVectorInsertDynamic:
      if (r[at(2)] >= i.type->words) throw Fault("a component beyond its vector");
      std::copy_n(r + at(0), i.type->words, r + i.result);
      r[i.result + r[at(2)]] = r[at(1)];
      return true;
    case op::kBitcast:
      bitcast(i, r);
      return true;
    case op::kSelect: {
      const bool one = i.from->words == 1;
      for (uint32_t w = 0; w < i.type->words; ++w) {
        r[i.result + w] = r[at(0) + (one ? 0 : w)] != 0 ? r[at(1) + w] : r[at(2) + w];
      }
      return true;
    }
    case op::kDot: {
      const Type& number = *i.type;
      uint64_t sum = 0;
      for (uint32_t w = 0; w < i.from->words; ++w) {
        sum = binary(op::kFAdd, number, sum, binary(op::kFMul, number, r[at(0) + w], r[at(1) + w]));
      }
      r[i.result] = sum;
      return true;
    }
    case op::kAny:
    case op::kAll: {  // OpAny, OpAll
      bool any = false, all = true;
      for (uint32_t w = 0; w < i.from->words; ++w) {
        any |= r[at(0) + w] != 0;
        all &= r[at(0) + w] != 0;
      }
      r[i.result] = i.op == op::kAny ? any : all;
      return true;
    }
    case op::kVectorTimesScalar:
    case op::kMatrixTimesScalar:
      for (uint32_t w = 0; w < i.type->words; ++w) {
        r[i.result + w] = binary(op::kFMul, i.type->number(), r[at(0) + w], r[at(1)]);
      }
      return true;
    default:
      return false;
  }
}

/// x op y and what carries over, as structures of two.
bool compute_wide(const Instruction& i, uint64_t* r) {
  if (i.op != op::kIAddCarry && i.op != op::kISubBorrow && i.op != op::kUMulExtended &&
      i.op != op::kSMulExtended)
    return false;
  const Type& part = *i.type->members[0];
  const uint32_t n = part.words, bits = part.bits;
  for (uint32_t w = 0; w < n; ++w) {
    const uint64_t x = r[i.operands[0] + w], y = r[i.operands[1] + w];
    if (bits != 32) unknown("extended arithmetic of other than 32 bits");
    uint64_t whole = x + y;
    if (i.op == op::kISubBorrow) whole = ((x - y) & mask_of(32)) | (x < y ? uint64_t{1} << 32 : 0);
    if (i.op == op::kUMulExtended) whole = x * y;
    if (i.op == op::kSMulExtended)
      whole = static_cast<uint64_t>(signed_of(x, 32) * signed_of(y, 32));
    r[i.result + w] = whole & mask_of(32);
    r[i.result + n + w] = whole >> 32;
  }
  return true;
}

uint64_t dot_of_bytes(uint64_t x, uint64_t y) {
  int64_t sum = 0;
  for (int k = 0; k < 4; ++k) sum += signed_of(x >> (8 * k), 8) * signed_of(y >> (8 * k), 8);
  return static_cast<uint64_t>(sum);
}

bool pack(const Instruction& i, uint64_t* r) {
  const uint32_t which = i.operands[0], from = i.operands.at(1);
  if (which == ext::kPackHalf2x16) {
    const Type& number = i.from->number();
    r[i.result] = to_half(to_double(r[from], number)) | to_half(to_double(r[from + 1], number))
                                                            << 16;
    return true;
  }
  if (which == ext::kUnpackHalf2x16) {
    const uint64_t word = r[from];
    for (uint32_t k = 0; k < 2; ++k) {
      r[i.result + k] = from_double(from_half(word >> (16 * k) & 0xffff), i.type->number());
    }
    return true;
  }
  return false;
}

}  // namespace

uint64_t binary(uint16_t op, const Type& type, uint64_t x, uint64_t y) {
  switch (op) {
    case op::kIAdd:
      return x + y;
    case op::kFAdd:
      return of_floats(type, [](auto a, auto b, auto) { return a + b; }, x, y);
    case op::kISub:
      return x - y;
    case op::kFSub:
      return of_floats(type, [](auto a, auto b, auto) { return a - b; }, x, y);
    case op::kIMul:
      return x * y;
    case op::kFMul:
      return of_floats(type, [](auto a, auto b, auto) { return a * b; }, x, y);
    case op::kFDiv:
      return of_floats(type, [](auto a, auto b, auto) { return a / b; }, x, y);
    case op::kFRem:
      return of_floats(type, [](auto a, auto b, auto) { return std::fmod(a, b); }, x, y);
    case op::kUDiv:
    case op::kSDiv:
    case op::kUMod:
    case op::kSRem:
    case op::kSMod:
      return divide(op, type.bits, x, y);
    case op::kFMod:
      return of_floats(type, [](auto a, auto b, auto) { return a - b * std::floor(a / b); }, x, y);
    case op::kLogicalEqual:
    case op::kIEqual:
      return x == y;
    case op::kLogicalNotEqual:
    case op::kINotEqual:
      return x != y;
    case op::kLogicalOr:
    case op::kBitwiseOr:
      return x | y;
    case op::kLogicalAnd:
    case op::kBitwiseAnd:
      return x & y;
    case op::kBitwiseXor:
      return x ^ y;
    case op::kShiftRightLogical:
    case op::kShiftRightArithmetic:
    case op::kShiftLeftLogical:
      return shift(op, type.bits, x, y);
    default:
      break;
  }
  if (op >= op::kUGreaterThan && op <= op::kSLessThanEqual)
    return compare_integers(op, type.bits, x, y);
  if (op >= op::kFOrdEqual && op <= op::kFUnordGreaterThanEqual)
    return compare_floats(op, type, x, y);
  unknown("operation " + std::to_string(op));
}

bool compute(const Instruction& i, uint64_t* r) {
  if (compose(i, r) || compute_wide(i, r)) return true;
  if (i.type == nullptr) return false;
  const uint64_t mask = mask_of(i.type->number().bits);
  const uint32_t words = i.type->words;
  if (i.op == op::kExtInst) {
    if (pack(i, r)) return true;
    const uint32_t which = i.operands[0];
    const size_t count = i.operands.size();
    for (uint32_t w = 0; w < words; ++w) {
      const uint64_t x = r[i.operands[1] + w], y = count > 2 ? r[i.operands[2] + w] : 0,
                     z = count > 3 ? r[i.operands[3] + w] : 0;
      r[i.result + w] = extended(which, i.from->number(), x, y, z) & mask;
    }
    return true;
  }
  if (is_conversion(i.op)) {
    for (uint32_t w = 0; w < words; ++w) {
      r[i.result + w] =
          convert(i.op, i.from->number(), i.type->number(), r[i.operands[0] + w]) & mask;
    }
    return true;
  }
  if (is_unary(i.op)) {
    for (uint32_t w = 0; w < words; ++w) {
      r[i.result + w] = unary(i.op, i.from->number(), r[i.operands[0] + w]) & mask;
    }
    return true;
  }
  if (i.op >= op::kBitFieldInsert && i.op <= op::kBitFieldUExtract) {
    for (uint32_t w = 0; w < words; ++w) r[i.result + w] = bit_field(i, r, w) & mask;
    return true;
  }
  if (i.op == op::kSDot) {
    r[i.result] = dot_of_bytes(r[i.operands[0]], r[i.operands[1]]) & mask;
    return true;
  }
  if (i.operands.size() != 2 || i.op < op::kSNegate || i.op > op::kNot) return false;
  const Type& number = i.from->number();
  for (uint32_t w = 0; w < words; ++w) {
    r[i.result + w] = binary(i.op, number, r[i.operands[0] + w], r[i.operands[1] + w]) & mask;
  }
  return true;
}

}  // namespace tv::interpreter

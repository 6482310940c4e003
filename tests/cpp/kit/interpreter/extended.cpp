// Functions of GLSL.std.450.

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/cpp/kit/interpreter/arithmetic.h"

namespace tv::interpreter {

uint64_t extended(uint32_t which, const Type& type, uint64_t x, uint64_t y, uint64_t z) {
  const auto floats = [&](auto f) { return of_floats(type, f, x, y, z); };
  const auto s = [&](uint64_t v) { return signed_of(v, type.bits); };
  switch (which) {
    case ext::kRound:
    case ext::kRoundEven:
      return floats([](auto a, auto, auto) { return std::nearbyint(a); });
    case ext::kTrunc:
      return floats([](auto a, auto, auto) { return std::trunc(a); });
    case ext::kFAbs:
      return x & mask_of(type.bits - 1);
    case ext::kSAbs:
      return s(x) < 0 ? 0 - x : x;
    case ext::kFSign:
      return floats([](auto a, auto, auto) { return static_cast<decltype(a)>((a > 0) - (a < 0)); });
    case ext::kSSign:
      return static_cast<uint64_t>(static_cast<int64_t>(s(x) > 0) - static_cast<int64_t>(s(x) < 0));
    case ext::kFloor:
      return floats([](auto a, auto, auto) { return std::floor(a); });
    case ext::kCeil:
      return floats([](auto a, auto, auto) { return std::ceil(a); });
    case ext::kFract:
      return floats([](auto a, auto, auto) { return a - std::floor(a); });
    case ext::kSin:
      return floats([](auto a, auto, auto) { return std::sin(a); });
    case ext::kCos:
      return floats([](auto a, auto, auto) { return std::cos(a); });
    case ext::kTanh:
      return floats([](auto a, auto, auto) { return std::tanh(a); });
    case ext::kPow:
      return floats([](auto a, auto b, auto) { return std::pow(a, b); });
    case ext::kExp:
      return floats([](auto a, auto, auto) { return std::exp(a); });
    case ext::kLog:
      return floats([](auto a, auto, auto) { return std::log(a); });
    case ext::kExp2:
      return floats([](auto a, auto, auto) { return std::exp2(a); });
    case ext::kLog2:
      return floats([](auto a, auto, auto) { return std::log2(a); });
    case ext::kSqrt:
      return floats([](auto a, auto, auto) { return std::sqrt(a); });
    case ext::kInverseSqrt:
      return floats([](auto a, auto, auto) { return 1 / std::sqrt(a); });
    case ext::kFMin:
    case ext::kNMin:
      return floats([](auto a, auto b, auto) { return std::fmin(a, b); });
    case ext::kUMin:
      return std::min(x, y);
    case ext::kSMin:
      return s(x) < s(y) ? x : y;
    case ext::kFMax:
    case ext::kNMax:
      return floats([](auto a, auto b, auto) { return std::fmax(a, b); });
    case ext::kUMax:
      return std::max(x, y);
    case ext::kSMax:
      return s(x) > s(y) ? x : y;
    case ext::kFClamp:
    case ext::kNClamp:
      return floats([](auto a, auto b, auto c) { return std::fmin(std::fmax(a, b), c); });
    case ext::kUClamp:
      return std::min(std::max(x, y), z);
    case ext::kSClamp: {
      const uint64_t low = s(x) > s(y) ? x : y;
      return s(low) < s(z) ? low : z;
    }
    case ext::kFMix:
      return floats([](auto a, auto b, auto c) { return a * (1 - c) + b * c; });
    case ext::kFma:
      return floats([](auto a, auto b, auto c) { return std::fma(a, b, c); });
    case ext::kLdexp:
      return from_double(std::ldexp(to_double(x, type), static_cast<int>(signed_of(y, 32))), type);
    case ext::kFindILsb:
      return x == 0 ? UINT64_MAX : static_cast<uint64_t>(std::countr_zero(x));
    case ext::kFindUMsb:
      return x == 0 ? UINT64_MAX : static_cast<uint64_t>(63 - std::countl_zero(x));
    default:
      throw Fault("function " + std::to_string(which) + " of GLSL.std.450 is not interpreted");
  }
}

}  // namespace tv::interpreter

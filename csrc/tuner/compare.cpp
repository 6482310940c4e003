#include "csrc/tuner/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "csrc/tuner/operands.h"

namespace tv {

namespace {

constexpr double kFloatEpsilon = 0x1p-24;
constexpr double kSafety = 8;
constexpr double kMayDiffer = 1e-3;

double rounding(DType dtype) {
  if (dtype == DType::kF16) return 0x1p-10;  // one result may round up, the other down
  if (dtype == DType::kBF16) return 0x1p-7;
  return 0x1p-22;
}

bool unwritten(DType dtype, const uint8_t* bytes, int64_t i) {
  const uint8_t* at = bytes + i * size_bytes(dtype);
  return std::all_of(at, at + size_bytes(dtype), [](uint8_t b) { return b == kUnwritten; });
}

double root_mean_square(DType dtype, std::span<const uint8_t> bytes, int64_t count) {
  double sum = 0, finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double v = element(dtype, bytes.data(), i);
    if (!std::isfinite(v) || unwritten(dtype, bytes.data(), i)) continue;
    sum += v * v;
    finite += 1;
  }
  return finite > 0 ? std::sqrt(sum / finite) : 0;
}

bool equal(double got, double want, double absolute, double relative) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return true;
  return std::isfinite(want) && std::abs(got - want) <= absolute + relative * std::abs(want);
}

}  // namespace

std::string difference(DType dtype, std::span<const uint8_t> got, std::span<const uint8_t> want,
                       const Tolerance& tolerance) {
  if (size_bytes(dtype) == 0) return "";
  const auto count = static_cast<int64_t>(want.size()) / size_bytes(dtype);
  double absolute = 0, relative = 0;
  if (is_float(dtype)) {
    // Of random terms with zero mean, Σ|terms| is about √terms times the size of their sum.
    const double root = std::sqrt(tolerance.terms);
    const double sums = (kSafety * kFloatEpsilon + tolerance.error) * root;
    double between = sums;
    for (const DType narrow : tolerance.roundings) between += rounding(narrow);
    absolute = between * root_mean_square(dtype, want, count);
    relative = between + rounding(dtype);
  }
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (tolerance.partial && unwritten(dtype, want.data(), i)) continue;
    if (equal(element(dtype, got.data(), i), element(dtype, want.data(), i), absolute, relative)) {
      continue;
    }
    if (wrong++ == 0) first = i;
  }
  const double allowed =
      tolerance.discontinuous ? std::ceil(kMayDiffer * static_cast<double>(count)) : 0;
  if (static_cast<double>(wrong) <= allowed) return "";
  char text[160];
  std::snprintf(text, sizeof text,
                "%lld of %lld elements differ, the first, number %lld, is %.9g and should be %.9g",
                static_cast<long long>(wrong), static_cast<long long>(count),
                static_cast<long long>(first), element(dtype, got.data(), first),
                element(dtype, want.data(), first));
  return text;
}

}  // namespace tv

#include "csrc/cli/tensors/difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "csrc/cli/text/shapes.h"

namespace tv::cli {
namespace {

/// Position of a number among those of a floating-point dtype with `bits` fewer bits of mantissa
/// than float32: neighbours are 1 apart, and so are -0 and 0.
int64_t position(double value, int bits) {
  const auto raw = std::bit_cast<int32_t>(static_cast<float>(value));
  const int64_t magnitude = raw & 0x7FFFFFFF;
  return (raw < 0 ? -1 - magnitude : magnitude) >> bits;
}

int64_t position64(double value) {
  const auto raw = std::bit_cast<int64_t>(value);
  const int64_t magnitude = raw & std::numeric_limits<int64_t>::max();
  return raw < 0 ? -1 - magnitude : magnitude;
}

int dropped_bits(DType dtype) {
  if (dtype == DType::kF16) return 13;
  return dtype == DType::kBF16 ? 16 : 0;
}

uint64_t ulps(double a, double b, DType one, DType other) {
  if (!is_float(one) || !is_float(other)) {
    const double apart = std::fabs(a - b);
    return apart < 0x1p63 ? static_cast<uint64_t>(apart) : std::numeric_limits<uint64_t>::max();
  }
  if (one == DType::kF64 && other == DType::kF64) {
    const int64_t x = position64(a), y = position64(b);
    return x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
                 : static_cast<uint64_t>(y) - static_cast<uint64_t>(x);
  }
  const int bits = std::max(dropped_bits(one), dropped_bits(other));
  return static_cast<uint64_t>(std::llabs(position(a, bits) - position(b, bits)));
}

}  // namespace

double snr_db(double noise) { return -10 * std::log10(noise); }

Difference difference(const Tensor& got, const Tensor& reference, const Tolerance& tolerance) {
  Difference d{.numel = got.numel()};
  if (got.shape != reference.shape) {
    d.mismatch =
        "got shape " + shape_text(got.shape) + ", the reference has " + shape_text(reference.shape);
    return d;
  }
  double sum = 0, power = 0, dot = 0, got_norm = 0, reference_norm = 0, farthest = -1;
  for (int64_t i = 0; i < d.numel; ++i) {
    const double a = got.at(i), b = reference.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) {
        dot += a * b;
        got_norm += a * a;
        reference_norm += b * b;
      }
      continue;
    }
    const double apart = std::fabs(a - b);
    const bool comparable = std::isfinite(a) && std::isfinite(b);
    const double allowed = tolerance.absolute + tolerance.relative * std::fabs(b);
    const double excess = comparable ? apart - allowed : std::numeric_limits<double>::infinity();
    if (excess > 0) ++d.outside;
    if (excess > farthest) {
      farthest = excess;
      d.worst = i;
    }
    d.max = comparable ? std::max(d.max, apart) : std::numeric_limits<double>::infinity();
    power += comparable ? apart * apart : std::numeric_limits<double>::infinity();
    sum += comparable ? apart : std::numeric_limits<double>::infinity();
    d.max_ulp = comparable ? std::max(d.max_ulp, ulps(a, b, got.dtype, reference.dtype))
                           : std::numeric_limits<uint64_t>::max();
    if (!comparable) continue;
    dot += a * b;
    got_norm += a * a;
    reference_norm += b * b;
  }
  if (d.numel > 0) d.mean = sum / static_cast<double>(d.numel);
  d.noise = power == 0 ? 0 : power / reference_norm;
  const double norms = std::sqrt(got_norm) * std::sqrt(reference_norm);
  d.cosine = norms > 0 ? dot / norms : (got_norm == reference_norm ? 1 : 0);
  return d;
}

}  // namespace tv::cli

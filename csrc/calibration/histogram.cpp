#include "csrc/calibration/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr uint32_t kSign = 0x80000000U, kInfinity = 0x7F800000U;

/// Of numbers; bits of magnitudes are in the order of these. Throws as Histogram::add.
float largest_magnitude(std::span<const float> numbers) {
  uint32_t most = 0;
  for (const float x : numbers) most = std::max(most, std::bit_cast<uint32_t>(x) & ~kSign);
  if (most > kInfinity) throw Error(ErrorKind::kUser, "NaN");
  if (most == kInfinity) throw Error(ErrorKind::kUser, "infinities");
  return std::bit_cast<float>(most);
}

/// x log x, and x log y, which are 0 where x is.
double x_log_y(double x, double y) { return x == 0 ? 0 : x * std::log(y); }

/// The nearest whole number, halves to even, of one from 0 to 2^51.
double rounded(double x) {
  constexpr double kShift = 0x1p52;  // of whose size numbers have no fraction
  return (x + kShift) - kShift;
}

/// Running sums over bins: element i is that of the first i.
struct RunningSums {
  std::vector<double> counts = {0}, filled = {0}, own = {0};  ///< own: of p log p

  explicit RunningSums(const std::vector<double>& bins) {
    for (const double bin : bins) {
      counts.push_back(counts.back() + bin);
      filled.push_back(filled.back() + (bin > 0 ? 1 : 0));
      own.push_back(own.back() + x_log_y(bin, bin));
    }
  }
};

/// The Kullback-Leibler divergence of the first `part` bins in 128 levels, each level's sum spread
/// evenly over its bins that are not empty, from these bins with all that lies beyond added to the
/// last one. Infinite where that bin is empty and something is clipped.
double divergence(const std::vector<double>& bins, const RunningSums& sums, size_t part) {
  const double total = sums.counts.back(), clipped = total - sums.counts[part];
  const double last = bins[part - 1];
  double p_log_q = 0, mean = 0;
  for (size_t level = 0, first = 0; level < kInt8Levels; ++level) {
    const size_t end = (part * (level + 1) + kInt8Levels - 1) / kInt8Levels;
    const double mass = sums.counts[end] - sums.counts[first];
    const double filled = sums.filled[end] - sums.filled[first];
    mean = filled > 0 ? mass / filled : 0;
    p_log_q += x_log_y(mass, mean);
    first = end;
  }
  p_log_q += x_log_y(clipped, last > 0 ? mean : 0);
  const double p_log_p =
      sums.own[part] - x_log_y(last, last) + x_log_y(last + clipped, last + clipped);
  const double found = (p_log_p - p_log_q) / total - std::log(total) + std::log(sums.counts[part]);
  return std::isnan(found) ? std::numeric_limits<double>::infinity() : found;
}

}  // namespace

void Histogram::add(std::span<const float> numbers) {
  if (numbers.empty()) return;
  const double most = largest_magnitude(numbers);
  amax = std::max(amax, most);
  if (width == 0) {
    if (most < static_cast<double>(kHistogramBins) * std::numeric_limits<float>::min()) {
      zeros += static_cast<double>(numbers.size());
      return;
    }
    width = most / static_cast<double>(kHistogramBins);
    counts.assign(kHistogramBins, 0);
    counts[0] = zeros;
  }
  grow(most);
  const auto inverse = static_cast<float>(1 / width);
  const auto last = static_cast<int32_t>(counts.size()) - 1;
  std::vector<uint64_t> found(counts.size());
  for (const float x : numbers) {
    ++found[static_cast<size_t>(std::min(static_cast<int32_t>(std::fabs(x) * inverse), last))];
  }
  for (size_t i = 0; i < found.size(); ++i) counts[i] += static_cast<double>(found[i]);
}

void Histogram::grow(double most) {
  while (most > width * static_cast<double>(kMostHistogramBins)) {
    if (counts.size() % 2 != 0) counts.push_back(0);
    for (size_t i = 0; i < counts.size() / 2; ++i) counts[i] = counts[2 * i] + counts[2 * i + 1];
    counts.resize(counts.size() / 2);
    width *= 2;
  }
  const auto wanted = static_cast<size_t>(std::ceil(most / width));
  if (wanted > counts.size()) counts.resize(wanted);
}

double Histogram::largest(RangeMethod method, double percentile) const {
  if (width == 0 || method == RangeMethod::kMinmax) return amax;
  if (method == RangeMethod::kPercentile) return by_percentile(percentile);
  return method == RangeMethod::kEntropy ? by_entropy() : by_mse();
}

/// The upper edge of the bin in which the share of magnitudes reaches `percentile` %. Wu et al.,
/// Integer quantization for deep learning inference (arXiv 2004.09602), 4.1.
double Histogram::by_percentile(double percentile) const {
  double total = 0, share = 0;
  for (const double count : counts) total += count;
  size_t at = 0;
  for (; at < counts.size(); ++at) {
    share += counts[at] / total;
    if (share >= percentile / 100) break;
  }
  return std::min(static_cast<double>(at + 1) * width, amax);
}

/// The clipping for which the distribution in 128 levels differs least from that in bins, as
/// Migacz has it (8-bit inference with TensorRT, GTC 2017, S7310). Of equal ones the widest.
double Histogram::by_entropy() const {
  std::vector<double> bins = counts;
  bins[0] = bins[1];  // zeros, which every clipping represents
  const RunningSums sums(bins);
  if (sums.counts.back() == 0) return amax;
  size_t chosen = bins.size();
  double least = std::numeric_limits<double>::infinity();
  for (size_t part = kInt8Levels; part <= bins.size(); ++part) {
    const double found = divergence(bins, sums, part);
    if (found > least) continue;
    least = found;
    chosen = part;
  }
  return static_cast<double>(chosen) * width;
}

/// The clipping, to the middle of a bin, whose quantisation has the least squared error.
double Histogram::by_mse() const {
  constexpr double kMost = kInt8Levels - 1;
  std::vector<double> values, weights;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    values.push_back((static_cast<double>(i) + 0.5) * width);
    weights.push_back(counts[i]);
  }
  double chosen = amax, least = std::numeric_limits<double>::infinity();
  for (size_t i = kInt8Levels; i < counts.size(); ++i) {
    const double clipping = (static_cast<double>(i) + 0.5) * width;
    const double steps = kMost / clipping, step = clipping / kMost;
    double error = 0;
    for (size_t k = 0; k < values.size(); ++k) {
      const double off = std::min(rounded(values[k] * steps), kMost) * step - values[k];
      error += off * off * weights[k];
    }
    if (error >= least) continue;
    least = error;
    chosen = clipping;
  }
  return chosen;
}

}  // namespace tv

#pragma once
// Histograms of magnitudes, and the largest one that 8 bits should represent, by several methods.
//
// The methods are those of NVIDIA's pytorch-quantization and ModelOpt
// (modelopt/torch/quantization/calib/histogram.py), whose results these equal to within a bin.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tv {

/// How the largest magnitude that int8 represents is chosen.
enum class RangeMethod : uint8_t { kEntropy, kPercentile, kMse, kMinmax };

/// By RangeMethod: what users call the methods.
inline constexpr std::array<std::string_view, 4> kRangeMethods = {"entropy", "percentile", "mse",
                                                                  "minmax"};

inline constexpr size_t kHistogramBins = 2048;
inline constexpr size_t kMostHistogramBins = 8 * kHistogramBins;  ///< then two bins become one
inline constexpr size_t kInt8Levels = 128;  ///< of an int8 tensor's magnitudes

/// How often magnitudes occur: bins of one width from 0 on. The first tensor that holds anything
/// but zeros chooses the width, a 2048th of its largest magnitude; larger ones later add bins of
/// that width, and where these would be more than 16384, bins become twice as wide.
struct Histogram {
  std::vector<double> counts;
  double width = 0;  ///< of a bin; 0 before anything but zeros was seen
  double amax = 0;   ///< the largest magnitude
  double zeros = 0;  ///< how many zeros were seen before there was a width

  /// Counts numbers. Throws Error(kUser), "NaN" or "infinities", where there are such; nothing is
  /// counted then.
  void add(std::span<const float> numbers);

  /// By the method; 0 where nothing but zeros was seen. `percentile`, above 0 and up to 100, is for
  /// the method of that name.
  double largest(RangeMethod method, double percentile) const;

 private:
  void grow(double most);
  double by_percentile(double percentile) const;
  double by_entropy() const;
  double by_mse() const;
};

}  // namespace tv

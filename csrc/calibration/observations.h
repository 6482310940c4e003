#pragma once
// What a calibration has seen of a network's tensors, the ranges that follow from it, and the file
// that keeps it while the calibration is not finished.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/calibration/calibration.h"
#include "csrc/calibration/histogram.h"

namespace tv {

/// What was seen of the channels of a tensor: for SmoothQuant and bias correction.
struct SeenChannels {
  bool of_product = false;     ///< a product sums over them, and not a convolution
  std::vector<float> largest;  ///< magnitude of each
  std::vector<double> total;   ///< the sum of each one's elements
  int64_t count = 0;           ///< elements of a channel
};

struct SeenTensor {
  std::string name;
  Histogram histogram;
  std::optional<SeenChannels> channels = {};  ///< where they are wanted and the tensor has such
};

/// Elements of a tensor, row-major, with channels along `channel_dim` (-1: none), which a product
/// sums over, or a convolution.
struct ObservedTensor {
  std::span<const float> elements;
  std::span<const int64_t> shape;
  int64_t channel_dim = -1;
  bool is_product = true;
};

/// How ranges are chosen, and what else a calibration is to say.
struct RangeChoice {
  RangeMethod method = RangeMethod::kEntropy;
  double percentile = 99.99;
  std::optional<float> smooth_quant = {};  ///< alpha
  bool bias_correction = false;

  /// Whether channels have to be observed.
  bool by_channels() const { return smooth_quant || bias_correction; }
};

/// Tensors in the order in which they were seen first.
class Observations {
 public:
  /// `by_channels`: whether channels are wanted.
  explicit Observations(bool by_channels = false) : by_channels_(by_channels) {}

  /// Counts a tensor. Throws Error(kUser), "'name' holds NaN", for NaN, infinities and another
  /// number of channels than before.
  void add(const std::string& name, const ObservedTensor& tensor);

  const std::vector<SeenTensor>& tensors() const { return tensors_; }
  bool by_channels() const { return by_channels_; }
  Calibration calibration(const RangeChoice& choice) const;

 private:
  friend struct UnfinishedCalibration;
  SeenTensor& seen(const std::string& name);
  void add_channels(SeenTensor& seen, const ObservedTensor& tensor) const;

  bool by_channels_ = false;
  std::vector<SeenTensor> tensors_;
  std::map<std::string, size_t> numbers_;
};

/// A calibration between two batches, as `<cache>.partial` has it.
struct UnfinishedCalibration {
  std::string model;  ///< a digest of it
  int64_t done = 0;   ///< batches that were counted
  Observations seen;

  std::string text() const;
  /// Throws Error(kUser) for a text that `text` did not write, or another version did.
  static UnfinishedCalibration read(std::string_view text);
};

/// "EntropyCalibration2", TensorRT's name for a method. percentile and mse, for which it has none,
/// go by that of its user-defined quantile.
std::string_view algorithm_of(RangeMethod method);

/// The first line of a cache that is made here.
std::string header_of(RangeMethod method);

/// Whether a cache's header is of what the method makes: TensorRT's first entropy calibrator and
/// its second are one.
bool is_of_method(std::string_view header, RangeMethod method);

}  // namespace tv

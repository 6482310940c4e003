#pragma once
// Calibration caches: what a step of int8 stands for in each tensor of a network, in the text files
// that TensorRT 5 to 10 write and read. What this project adds stands behind the tensors, in lines
// that others take for tensors of networks that they do not have:
//
//   #torch_vulkan smooth_quant: 3f000000                              alpha
//   #torch_vulkan largest 3f80000040000000 layer.input: 0             InputChannels::largest
//   #torch_vulkan means bf80000000000000 layer.input: 0               InputChannels::means
//   #torch_vulkan required layer.input: 0                             Calibration::required

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tv {

/// What was seen of a tensor along the dimension that a product or convolution sums over.
struct InputChannels {
  std::vector<float> largest;  ///< magnitude of each channel, for SmoothQuant; empty: without it
  std::vector<float> means;    ///< of each channel, for bias correction; empty: without it
};

struct Calibration {
  std::string header;  ///< "TRT-101401-EntropyCalibration2"
  /// Of each tensor the real value of one step, its largest magnitude / 127, in the file's order.
  /// 0: nothing was seen of it.
  std::vector<std::pair<std::string, float>> scales;
  std::map<std::string, InputChannels> channels = {};  ///< by tensor
  /// SmoothQuant's alpha, the share of the difficulty that moves to the weights. Set if any
  /// `largest` is.
  std::optional<float> alpha = {};
  /// Tensors whose products and convolutions are computed in int8 even where floats are faster; an
  /// error where they cannot be.
  std::set<std::string> required = {};
};

/// Reads a cache, called `what` in messages. Throws Error(kUser), with the line, for a text that is
/// no cache, of an unknown version or algorithm, or cut short, and for scales that are negative or
/// no finite numbers, and for such facts of channels.
Calibration read_calibration(std::string_view text, const std::string& what);

/// The text of a file, as read_calibration takes it.
std::string calibration_file(const std::string& path);

/// The text of a cache: what read_calibration read comes out byte for byte.
std::string calibration_text(const Calibration& calibration);

}  // namespace tv

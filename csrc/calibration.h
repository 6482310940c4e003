#pragma once
// Calibration caches: what a step of int8 stands for in each tensor of a network, in the text files
// that TensorRT 5 to 10 write and read.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tv {

struct Calibration {
  std::string header;  ///< "TRT-101401-EntropyCalibration2"
  /// Of each tensor the real value of one step, its largest magnitude / 127, in the file's order.
  /// 0: nothing was seen of it.
  std::vector<std::pair<std::string, float>> scales;
};

/// Reads a cache, called `what` in messages. Throws Error(kUser), with the line, for a text that is
/// no cache, of an unknown version or algorithm, or cut short, and for scales that are negative or
/// no finite numbers.
Calibration read_calibration(std::string_view text, const std::string& what);

/// The text of a file, as read_calibration takes it.
std::string calibration_file(const std::string& path);

/// The text of a cache: what read_calibration read comes out byte for byte.
std::string calibration_text(const Calibration& calibration);

}  // namespace tv

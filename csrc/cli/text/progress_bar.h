#pragma once

#include <chrono>
#include <string>

namespace tv::cli {

/// A line on standard error that says how far a build is; silent where that is not a terminal.
class ProgressBar {
 public:
  ProgressBar();
  /// `done` of `total` (0: not known) of a stage.
  void show(const std::string& stage, int64_t done, int64_t total);
  /// Removes the line.
  ~ProgressBar();

 private:
  bool terminal_;
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace tv::cli

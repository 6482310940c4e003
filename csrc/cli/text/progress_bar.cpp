#include "csrc/cli/text/progress_bar.h"

#include <unistd.h>

#include <cstdio>

namespace tv::cli {
namespace {

constexpr int kWidth = 24;
constexpr auto kInterval = std::chrono::milliseconds(100);

}  // namespace

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::show(const std::string& stage, int64_t done, int64_t total) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < kInterval && done != total) return;
  shown_ = now;
  const auto filled = static_cast<size_t>(total > 0 ? kWidth * done / total : 0);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  const std::string count =
      total > 0 ? std::to_string(done) + "/" + std::to_string(total) : std::string();
  std::fprintf(stderr, "\rBuilding [%s] %-30.30s %-12s", bar.c_str(), stage.c_str(), count.c_str());
  std::fflush(stderr);
}

ProgressBar::~ProgressBar() {
  if (terminal_) std::fprintf(stderr, "\r%79s\r", "");
}

}  // namespace tv::cli

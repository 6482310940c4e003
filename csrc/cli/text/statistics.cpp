#include "csrc/cli/text/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace tv::cli {
namespace {

std::string ms(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g ms", value);
  return text;
}

}  // namespace

Summary summarise(std::vector<double> values, const std::vector<double>& percents) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  Summary summary{.min = values.front(), .max = values.back()};
  summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
  summary.median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  for (const double percent : percents) {
    const double rank = std::ceil(percent / 100 * static_cast<double>(n));
    const auto at = static_cast<size_t>(std::clamp(rank, 1.0, static_cast<double>(n))) - 1;
    summary.percentiles.push_back({percent, values[at]});
  }
  return summary;
}

std::string summary_text(const Summary& summary) {
  std::string text = "min = " + ms(summary.min) + ", max = " + ms(summary.max) +
                     ", mean = " + ms(summary.mean) + ", median = " + ms(summary.median);
  for (const Percentile& p : summary.percentiles) {
    char percent[32];
    std::snprintf(percent, sizeof(percent), "%g", p.percent);
    text += std::string(", percentile(") + percent + "%) = " + ms(p.value);
  }
  return text;
}

}  // namespace tv::cli

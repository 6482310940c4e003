#pragma once

#include <string>
#include <vector>

namespace tv::cli {

struct Percentile {
  double percent = 0, value = 0;
};

struct Summary {
  double min = 0, max = 0, mean = 0, median = 0;
  std::vector<Percentile> percentiles;
};

/// Of at least one value. A percentile p is the smallest value that p % of all are not above
/// (nearest rank); the median of an even number is the mean of the middle two.
Summary summarise(std::vector<double> values, const std::vector<double>& percents);

/// "min = 1.2 ms, max = …, mean = …, median = …, percentile(90%) = …" of milliseconds.
std::string summary_text(const Summary& summary);

}  // namespace tv::cli

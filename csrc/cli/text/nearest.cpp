#include "csrc/cli/text/nearest.h"

#include <algorithm>
#include <cctype>

namespace tv::cli {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Optimal string alignment distance.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view text, const std::vector<std::string>& known) {
  const std::string wanted = lower(text);
  // One change makes any name of one letter of any other.
  size_t best = wanted.size() < 2 ? 1 : std::clamp<size_t>(wanted.size() / 4, 1, 3) + 1;
  std::string found;
  for (const std::string& candidate : known) {
    const size_t away = distance(wanted, lower(candidate));
    if (away >= best) continue;
    best = away;
    found = candidate;
  }
  return found;
}

}  // namespace tv::cli

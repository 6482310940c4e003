#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tv {

/// What one optimization_level allows the tuner.
struct TuningLevel {
  size_t least;        ///< candidates of a node that are timed in any case …
  double share;        ///< … or this share of them, whichever is more
  double gpu_seconds;  ///< of timing for one engine; rules choose the tactics that are left
  double cpu_seconds;  ///< the same on CPU drivers, which take 10 to 100 times as long a run
  int rounds;          ///< timings of each contender
  size_t compared;     ///< candidates of a node that are timed to compare graphs

  size_t count(size_t applicable) const {
    const auto part = static_cast<size_t>(share * static_cast<double>(applicable) + 0.999);
    return std::min(applicable, std::max(least, part));
  }
};

/// `level`: 1 to 5.
inline const TuningLevel& tuning_level(int64_t level) {
  static constexpr TuningLevel kLevels[] = {{2, 0.15, 5, 3, 3, 2},
                                            {4, 0.30, 15, 6, 3, 2},
                                            {8, 0.50, 40, 15, 5, 4},
                                            {16, 0.75, 180, 60, 7, 4},
                                            {SIZE_MAX, 1.0, 3600, 3600, 9, 8}};
  return kLevels[std::clamp<int64_t>(level, 1, 5) - 1];
}

}  // namespace tv

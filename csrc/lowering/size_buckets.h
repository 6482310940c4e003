#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/cost_model.h"

namespace tv {

/// Sizes of a symbol for which one tactic is chosen, timed at `point`.
struct SizeBucket {
  int32_t symbol = -1;  ///< -1: sizes are known, or near enough to each other
  int64_t first = 0, last = kUnbounded, point = 0;

  /// 1 if the symbol's value lies in the bucket, else 0; `of` are the engine's symbols.
  Expr contains(const std::vector<Symbol>& of) const;
  std::string str(const std::vector<Symbol>& of) const;  ///< "batch 1..11"
};

/// The bucket of the typical sizes first, then those of much smaller and much larger ones. They
/// partition the range of one of the symbols `used`: the one whose range is the widest.
std::vector<SizeBucket> size_buckets(const std::vector<Symbol>& symbols,
                                     const std::vector<int32_t>& used);

/// `problem` as it is in a bucket: its point is the typical size, its ends are the least and the
/// largest.
TacticProblem in_bucket(TacticProblem problem, const SizeBucket& bucket);

}  // namespace tv

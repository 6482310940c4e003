#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace tv {

/// How far two results may lie apart.
struct Tolerance {
  double terms = 1;  ///< how many terms one element adds, about
  double error = 0;  ///< Tactic::error
  /// TacticProblem::discontinuous: one element in a thousand may differ freely.
  bool discontinuous = false;
  /// TacticProblem::roundings: sums that differ a little may be rounded up or down each time, and
  /// what is left where they cancel is as wrong as what was added.
  std::vector<DType> roundings = {};
  bool partial = false;  ///< where `want` still holds kUnwritten, anything goes
};

/// What results hold before a run.
inline constexpr uint8_t kUnwritten = 0xA5;

/// How `got` differs from `want` - "" if it does not: floats by more than rounding explains,
/// other types at all. Sums in another order differ by ε·√terms of the size of the results, and
/// every result is rounded to its dtype.
std::string difference(DType dtype, std::span<const uint8_t> got, std::span<const uint8_t> want,
                       const Tolerance& tolerance);

}  // namespace tv

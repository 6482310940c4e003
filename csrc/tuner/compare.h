#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/dtype.h"

namespace tv {

/// How far two results may lie apart.
struct Tolerance {
  double terms = 1;  ///< how many terms one element adds, about
  double error = 0;  ///< Tactic::error
  /// TacticProblem::discontinuous: one element in a thousand may differ freely.
  bool discontinuous = false;
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

#pragma once
// What the ends of a line of tv::fft hold.

namespace tv {

enum class FftKind : int {
  kReal = 0,
  kComplex = 1,
  kHalf = 2,  ///< the first n / 2 + 1 of a Hermitian line
  kNone = 3,
};

}  // namespace tv

#pragma once

#include <string>

#include "csrc/cli/tensors/tensor.h"

namespace tv::cli {

struct Tolerance {
  double absolute = 1e-5, relative = 1e-4;
};

/// How far a tensor is from its reference.
struct Difference {
  std::string mismatch;            ///< shapes that differ; "": the numbers were compared
  double max = 0, mean = 0;        ///< of |got - reference|; NaNs at the same place count as equal
  double cosine = 1;               ///< of both as vectors; 1 if both are 0
  double noise = 0;                ///< power of got - reference by that of the reference
  uint64_t max_ulp = 0;            ///< in steps of the coarser dtype; of integers |got - reference|
  int64_t outside = 0, numel = 0;  ///< elements with |got - ref| > absolute + relative · |ref|
  int64_t worst = 0;               ///< the element that is farthest outside
  bool good() const { return mismatch.empty() && outside == 0; }
};

/// Signal to noise in decibel; infinite where nothing differs, -infinite where nothing is right.
double snr_db(double noise);

Difference difference(const Tensor& got, const Tensor& reference, const Tolerance& tolerance);

}  // namespace tv::cli

#pragma once
// SmoothQuant and bias correction of calibrated products, in the weight program.

#include <map>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/rewriter.h"

namespace tv {

/// Numbers as a row of float32: constants that the engine holds.
ValueId floats_of(Rewriter& rw, const std::vector<double>& values);

/// What the channels of an input are divided by before they are quantised, and their weights
/// multiplied with (Xiao et al., SmoothQuant, arXiv 2211.10438, equation 4):
/// max|X_j|^alpha / max|W_j|^(1 - alpha), where the maximum is over all weights that the input is
/// multiplied with. A channel that held zeros alone is divided by 1.
struct Smoothing {
  ValueId factors = kNoValue;  ///< [channels]
  ValueId scale = kNoValue;    ///< [1], of a step: what covers the largest magnitude after division
};

/// A product whose input is smoothed: the matrix that it is multiplied with, as the model has it.
struct SmoothedWeight {
  ValueId weight = kNoValue;
  size_t channels = 0;  ///< the dimension that is not summed over
};

/// Adds their computation; `largest` and `alpha` as calibration knows them (kInputLargest).
Smoothing smoothing_of(Rewriter& rw, const std::vector<double>& largest, double alpha,
                       const std::vector<SmoothedWeight>& weights);

/// A weight in float32, in steps of `scales`, and as integers of such steps in float32.
struct RoundedWeight {
  ValueId exact = kNoValue, scales = kNoValue, steps = kNoValue;
  size_t channels = 0;  ///< the dimension of the results' channels
};

/// [output channels]: what quantising the weight takes from the mean result, to be added to the
/// bias: Σ (W - quantised W) · means. Nagel et al., Data-free quantization through weight
/// equalization and bias correction, arXiv 1906.04721, 4.2. `means`: of the input's channels, which
/// are in `groups` of a convolution.
ValueId bias_correction(Rewriter& rw, const RoundedWeight& weight, ValueId means, int64_t groups);

}  // namespace tv

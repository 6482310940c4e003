#pragma once
// Normalisations that several operators are made of.

#include "csrc/frontends/onnx/kit/context.h"

namespace tv::onnx {

/// Over the dimensions from `axis` on, 0 or more; the bias may be left out.
struct NormParameters {
  Tensor weight, bias;
  int64_t axis = 0;
  double epsilon = 1e-5;
};

/// The result, of x's shape; mean and 1 / deviation of each row, float32, with dimensions of 1.
struct Normalised {
  Tensor y, mean, inverse;
};
Normalised layer_normalised(Emitter& e, const Tensor& x, const NormParameters& p);
/// x / sqrt(mean(x^2) + epsilon) · weight, of the weight's type.
Tensor rms_normalised(Emitter& e, const Tensor& x, const NormParameters& p);

/// RMSNormalization, of which ONNX Runtime has an older name.
void rms_norm(OpContext& c);

}  // namespace tv::onnx

#pragma once
// Batch normalisation with given statistics, gone before kernels are chosen.

#include "csrc/graph/graph.h"

namespace tv {

/// True for a batch_norm operator, in any of its forms, that normalises by running statistics.
bool is_inference_batch_norm(const Node& node);

/// Replaces inference batch_norm by y = x · scale + shift, with scale = weight / sqrt(var + eps)
/// and shift = bias - mean · scale per channel, as nodes over the weights (never baked values).
/// After a float32 convolution with constant weights that nothing else reads, scale and shift go
/// into the convolution's weight and bias. Runs on ATen's operators, before canonicalise.
///
/// 16-bit convolutions keep scale and shift as a multiply-add on their result (which fuses into
/// their epilogue, in float32): rounding weight · scale to 16 bits would lower the precision that
/// the model asked for, and a small scale would push weights into float16's subnormals.
Graph fold_batch_norm(Graph graph);

}  // namespace tv

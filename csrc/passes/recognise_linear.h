#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// matmul(x, weight) of rows with a constant matrix, and the constant row that is added to it,
/// become mm or addmm of x as a matrix, between reshapes: what torch captures for a linear layer,
/// and what merge_matmuls and the converters know. Several of one x share its reshape. Runs on
/// ATen's operators; ONNX files have matmul and add.
Graph recognise_linear(Graph graph);

}  // namespace tv

#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Turns matmul(x, weight) with a constant matrix, and the constant row that is added to it, into
/// mm or addmm of x as a matrix, between reshapes: the form that torch captures for a linear layer,
/// and that merge_matmuls and the converters expect. Several products of one x share its reshape.
/// Runs on ATen's operators; ONNX files have matmul and add.
Graph recognise_linear(Graph graph);

}  // namespace tv

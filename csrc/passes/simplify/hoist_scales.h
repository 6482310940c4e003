#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// (a · s) (b · t) → (a b) · (s · t) for float32 products of matrices and constants s, t of one
/// element, where nothing else reads the scaled operands: the scale then fuses into the epilogue of
/// the product, and s · t into the weight program. ONNX files have attention like this, its scale
/// divided over queries and keys. Float16 keeps its order: an unscaled product may leave its range.
Graph hoist_scales(Graph graph);

}  // namespace tv

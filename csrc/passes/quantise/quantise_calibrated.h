#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Products and convolutions whose input has a scale (Node::input_scale) read quantised tensors:
/// the input in steps of that scale, symmetric, from -128 to 127, rounded by division as TensorRT
/// and ONNX do, and the weight in steps of its own for each channel, whose largest magnitude is
/// 127. multiply_integers makes products of integers of them.
Graph quantise_calibrated(Graph graph);

}  // namespace tv

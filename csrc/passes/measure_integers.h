#pragma once

#include "csrc/passes/node_alone.h"

namespace tv {

/// Takes the scale (Node::input_scale) off products and convolutions that are measured to be faster
/// as they are than in int8, their input's quantisation included. Where times are not known it
/// stays. Runs before quantise_calibrated.
Graph measure_integers(Graph graph, const GraphUs& us);

}  // namespace tv

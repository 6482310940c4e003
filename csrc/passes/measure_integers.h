#pragma once

#include <functional>
#include <optional>

#include "csrc/graph/graph.h"

namespace tv {

/// µs that a small graph takes; nothing if that is not known.
using GraphUs = std::function<std::optional<double>(Graph graph)>;

/// Takes the scale (Node::input_scale) off products and convolutions that are measured to be faster
/// as they are than in int8, their input's quantisation included. Where times are not known it
/// stays. Runs before quantise_calibrated.
Graph measure_integers(Graph graph, const GraphUs& us);

}  // namespace tv

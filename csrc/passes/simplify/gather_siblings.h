#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Moves products and convolutions of the same value next to each other, so that they need no
/// barrier in between, if the later ones need nothing that is computed in between: a shortcut's
/// convolution then runs beside the first one of its branch instead of after the last. Nodes that
/// depend on weights alone move to the front.
Graph gather_siblings(Graph graph);

}  // namespace tv

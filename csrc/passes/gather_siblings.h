#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Products and convolutions of one value run one after another, without a barrier between them,
/// where the later ones need nothing that is made in between: a shortcut's convolution beside the
/// first of its branch, in place of after the last. What depends on weights alone moves to the
/// front.
Graph gather_siblings(Graph graph);

}  // namespace tv

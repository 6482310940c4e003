#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Removes pads of nothing, and lets convolutions whose input was padded with zeros pad it
/// themselves: a kernel finds the end of the padding from the output's shape, so the amounts before
/// and after may differ. Runs on ATen's operators, before canonicalise.
Graph fold_padding(Graph graph);

}  // namespace tv

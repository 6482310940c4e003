#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// The two products beside a softmax of capped scores, as PyTorch takes them apart - bmm of views
/// with the batch and the heads in one dimension - become aten::matmul of what those are views of,
/// which recognise_attention knows. Scores without a cap stay apart: models that write their
/// attention out have none.
Graph whole_products(Graph graph);

}  // namespace tv

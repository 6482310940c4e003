#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// The two products beside a softmax of capped scores, or beside PyTorch's own safe softmax
/// (safe_softmax.h), as PyTorch takes them apart - bmm of views with the batch and the heads in one
/// dimension - become aten::matmul of what those are views of, which recognise_attention knows. The
/// right one's heads may be one that was expanded: PyTorch has no kernel for that, so attention of
/// heads that share keys comes in this form. Other scores without a cap stay apart: models that
/// write their attention out have none.
Graph whole_products(Graph graph);

}  // namespace tv

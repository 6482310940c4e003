#pragma once

#include <functional>

#include "csrc/graph/graph.h"

namespace tv {

/// softmax(query · keyᵀ · scale + mask) · value, written as products and a softmax, becomes
///   tv::softmax_attention(query, key, value, mask?, factor?, scale, is_causal, rows),
/// which one kernel computes where the device has it. `scale` and `factor` (one element, of a
/// weight) are what the pieces multiply with anywhere before the mask is added; a mask that is
/// triu(full(-inf), 1) is is_causal. `rows`: "softmax", a row of nothing but -inf is not a number;
/// "nan_is_zero" where the pieces replace what is not a number by zero. The result differs from the
/// pieces' by rounding alone. Heads must be a dimension of their own: ranks of 3 and 4. Runs on
/// ATen's operators; ONNX files have attention in this form, and so has code that predates
/// scaled_dot_product_attention. A node that `is_apart` is no piece.
Graph recognise_attention(Graph graph, const std::function<bool(const Node&)>& is_apart = nullptr);

}  // namespace tv

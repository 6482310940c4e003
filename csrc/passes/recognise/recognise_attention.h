#pragma once

#include <functional>

#include "csrc/graph/graph.h"

namespace tv {

/// softmax(query · keyᵀ · scale + mask) · value, written as products and a softmax, becomes
///   tv::softmax_attention(query, key, value, mask?, factor?, scale, is_causal, rows, softcap),
/// which is one kernel if the device has it. `scale` and `factor` (one element, of a weight) are
/// the factors that the original nodes multiply with anywhere before the mask is added; the mask
/// triu(full(-inf), 1) becomes is_causal. Where the nodes make softcap · tanh(s) of the scores s
/// before that, as Gemma 2's do, `scale` is inside of the tanh; softcap 0: there is none. `rows` is
/// "softmax" if a row of only -inf gives NaN, "nan_is_zero" if the original nodes replace NaN by
/// zero, and "zeros" if they do so with a row of only -inf (safe_softmax.h). The result differs
/// from theirs by rounding alone. Heads must be a dimension of their own: ranks 3 and 4. Runs on
/// ATen's operators; ONNX files have attention in this form, and so has code that predates
/// scaled_dot_product_attention. Nodes for which `is_apart` is true are never part of it.
Graph recognise_attention(Graph graph, const std::function<bool(const Node&)>& is_apart = nullptr);

}  // namespace tv

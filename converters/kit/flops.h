#pragma once
// Converter::flops of products, convolutions and attention, as torch.utils.flop_counter has them.

#include "csrc/converter.h"

namespace tv {

/// Of a product whose sums go along the last dimension of the argument `a`.
decltype(Converter::flops) flops_of_product(const char* a);

/// Of "input" and "weight", transposed where a flag says so.
Expr flops_of_convolution(const Graph& graph, const Node& node);
/// The same, always transposed.
Expr flops_of_transposed(const Graph& graph, const Node& node);

/// Of the gradients of "input" and "weight" that "output_mask" asks for, each as much as the
/// convolution itself.
Expr flops_of_convolution_backward(const Graph& graph, const Node& node);

/// Of "query", "key" and "value".
Expr flops_of_attention(const Graph& graph, const Node& node);
/// Of their gradients, for which the scores are computed anew.
Expr flops_of_attention_backward(const Graph& graph, const Node& node);

}  // namespace tv

#pragma once
// torch.nn.TransformerEncoderLayer and MultiheadAttention call one operator each where no gradient
// is wanted ("fast path"); here these are taken apart.

#include <torch/csrc/jit/ir/ir.h>

namespace tv::script {

/// Replaces aten::_transformer_encoder_layer_fwd and aten::_native_multi_head_attention by what
/// their kernels compute; nothing in a graph that makes nested tensors, for which only they work.
/// Returns whether the graph had any.
bool take_encoder_layers_apart(torch::jit::Graph& graph);

}  // namespace tv::script

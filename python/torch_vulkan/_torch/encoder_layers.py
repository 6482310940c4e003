"""torch.nn.TransformerEncoderLayer and MultiheadAttention call one operator each where no gradient
is wanted ("fast path"). These are the same operators taken apart, as their kernels compute them."""

import math

import torch
from torch.nn import functional

aten = torch.ops.aten


def native_multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias,
                                proj_weight, proj_bias, mask=None, need_weights=True,
                                average_attn_weights=True, mask_type=None):
    """Of aten::_native_multi_head_attention, for dense tensors."""
    operands = _projected((query, key, value), embed_dim, qkv_weight, qkv_bias)
    q, k, v = (t.unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2)
               for t in operands)
    hidden = None if mask is None else _hidden(mask, mask_type)
    weights = None
    if need_weights or hidden is not None:
        # Not scaled_dot_product_attention: rows that are hidden as a whole are NaN here.
        scores = (q * (1 / math.sqrt(embed_dim // num_head))) @ k.transpose(-2, -1)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        weights = torch.softmax(scores, -1)
        result = weights @ v
    else:
        result = functional.scaled_dot_product_attention(q, k, v)
    result = functional.linear(result.transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def _projected(operands, embed_dim, weight, bias):
    query, key, value = operands
    if query is key and key is value:
        return functional.linear(query, weight, bias).split(embed_dim, -1)
    weights, biases = weight.split(embed_dim), bias.split(embed_dim)
    return [functional.linear(t, w, b) for t, w, b in zip(operands, weights, biases)]


def _hidden(mask, mask_type):
    """True if a score does not count, of a shape that broadcasts to the scores'."""
    mask = mask.to(torch.bool)  # numbers, too: the kernels take each one that is not 0 for hidden
    return mask[:, None, None, :] if mask_type == 1 else mask


def transformer_encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
                              proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1,
                              norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
                              ffn_bias_2, mask=None, mask_type=None):
    """Of aten::_transformer_encoder_layer_fwd, for dense tensors."""
    def first_norm(x):
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x):
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attention(x):
        return native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            False, True, mask_type)[0]

    def feed_forward(x):
        x = functional.linear(x, ffn_weight_1, ffn_bias_1)
        x = functional.gelu(x) if use_gelu else torch.relu(x)
        return functional.linear(x, ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attention(first_norm(src))
        return src + feed_forward(second_norm(src))
    src = first_norm(src + attention(src))
    return second_norm(src + feed_forward(src))


DECOMPOSITIONS = {
    aten._native_multi_head_attention.default: native_multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
}

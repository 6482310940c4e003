"""What decoders of transformers say of themselves, and what they are asked for."""

import inspect
from collections.abc import MutableMapping
from numbers import Integral

import torch
from torch import nn


def check(model) -> None:
    """Raises ValueError where a model cannot be stepped."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "generate"):
        raise ValueError(f"generate: got {type(model).__name__}, want a causal language model of "
                         "transformers")
    if refused := _refused(model, config):
        raise ValueError(f"generate: got {type(model).__name__}, {refused}: want a decoder of text "
                         "with attention; model.generate with a compiled forward takes every "
                         "model (docs/generation.md)")
    checkpoints = "is_activation_checkpointing" if hasattr(
        type(model), "is_activation_checkpointing") else "is_gradient_checkpointing"
    if model.training and getattr(model, checkpoints, False):
        raise ValueError("generate: got a model in training mode that recomputes activations, "
                         "which keeps no cache: call model.eval() first")
    if (drawn := _drawn_in_training(model)) is not None:
        raise ValueError("generate: got a model in training mode, whose dropout or noise "
                         f"({drawn}) gives other tokens each time: call model.eval() first")
    if any(tensor.is_meta for tensor in model.parameters()):
        raise ValueError("generate: got a model on the device meta, which has no weights: load "
                         "them first")


def _drawn_in_training(model: nn.Module) -> str | None:
    """The layer that draws random numbers because it is in training mode; None if there is none.
    Rates of dropout and noise are layers' numbers, by whose names they are found, as layers of
    transformers pass them to functions."""
    for name, module in model.named_modules():
        if not module.training:
            continue
        rates = [value for key, value in vars(module).items() if "drop" in key or "jitter" in key]
        if isinstance(module, nn.modules.dropout._DropoutNd):
            rates.append(module.p)
        if isinstance(module, nn.RReLU) or any(
                isinstance(rate, float) and rate > 0 for rate in rates):
            return name or type(module).__name__
    return None


def check_prompt(input_ids) -> None:
    """Raises ValueError where what is to be continued is no prompt."""
    if not isinstance(input_ids, torch.Tensor) or input_ids.dim() != 2 or (
            input_ids.dtype not in (torch.int32, torch.int64)) or 0 in input_ids.shape:
        got = f"{input_ids.dtype} {list(input_ids.shape)}" if isinstance(
            input_ids, torch.Tensor) else type(input_ids).__name__
        raise ValueError(f"generate: input_ids: got {got}, want integers [batch, length], int64 or "
                         "int32, each 1 or more")
    _check_dense("input_ids", input_ids)


def _check_dense(name: str, tensor: torch.Tensor) -> None:
    if tensor.is_meta or tensor.layout != torch.strided:
        got = "one on the device meta" if tensor.is_meta else str(tensor.layout)
        raise ValueError(f"generate: {name}: got {got}, want a dense tensor with data")


def mask_of(input_ids: torch.Tensor, given, padding: int | None) -> torch.Tensor | None:
    """The attention mask, int64 [batch, length] of 0 and 1, or None where nothing is padding.
    Without a mask the token `padding` is, as in model.generate.

    Raises:
        ValueError: it is no mask, or hides a last token.
    """
    if given is None:
        if padding is None or not (input_ids == padding).any():
            return None
        if (input_ids[:, -1] == padding).any():
            raise ValueError(f"generate: input_ids end with padding (pad_token_id {padding}), and "
                             "there is no attention_mask: pad on the left "
                             "(tokenizer.padding_side = \"left\"), or give the mask")
        return (input_ids != padding).long()
    if not isinstance(given, torch.Tensor):
        raise ValueError(f"generate: attention_mask: got {type(given).__name__}, want a tensor, or "
                         "None")
    if given.shape != input_ids.shape:
        raise ValueError(f"generate: attention_mask: got {list(given.shape)}, want the shape of "
                         f"input_ids, {list(input_ids.shape)}")
    _check_dense("attention_mask", given)
    hidden, shown = given == 0, given == 1
    if not (hidden | shown).all():
        raise ValueError("generate: attention_mask: got other values than 0, for padding, and 1, "
                         "for tokens: want these (model.generate adds them up to positions)")
    if hidden[:, -1].any():
        raise ValueError("generate: attention_mask hides a last token; pad on the left "
                         "(tokenizer.padding_side = \"left\")")
    return None if shown.all() else shown.long().to(input_ids.device)


def check_length(config, length: int, max_new_tokens: int) -> None:
    """Raises ValueError where the text would be longer than the model can read."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None and 0 < limit < length + max_new_tokens:
        raise ValueError(f"generate: got a prompt of {length} tokens and max_new_tokens="
                         f"{max_new_tokens}, want at most {limit} together "
                         "(config.max_position_embeddings)")
    limit = _one_rotation(config)
    if limit is not None and length + max_new_tokens > limit:
        raise ValueError(f"generate: got a prompt of {length} tokens and max_new_tokens="
                         f"{max_new_tokens}, want at most {limit} together: behind "
                         "original_max_position_embeddings this model (longrope) rotates all "
                         "positions anew, as model.generate does")


def _one_rotation(config) -> int | None:
    """Up to how many positions the rotations of a model with "longrope" are the same; None for
    other models."""
    rotary = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if "longrope" not in (rotary.get("rope_type"), rotary.get("type")):
        return None
    name = "original_max_position_embeddings"
    return getattr(config, name, None) or rotary.get(name) or config.max_position_embeddings


def cache_argument(model) -> str | None:
    """The name of forward's argument for keys and values."""
    takes = inspect.signature(type(getattr(model, "_orig_mod", model)).forward).parameters
    return next((name for name in ("cache", "past_key_values") if name in takes), None)


def counts_from_padding(model) -> bool:
    """Whether a model makes positions from the tokens, beginning behind that of padding (RoBERTa),
    unless it is given them; model.generate gives them, from 0."""
    return any(hasattr(module, "create_position_ids_from_input_ids") for module in model.modules())


def masks_by_length(config) -> bool:
    """Whether a model adds a bias to attention (alibi) that is as long as its mask, and without a
    mask as the text, not as the cache (Falcon)."""
    return bool(getattr(config, "alibi", False))


def _refused(model, config) -> str:
    """What a model is that cannot be stepped; "" for others."""
    if config.is_encoder_decoder:
        return "which has an encoder"
    if config.get_text_config() is not config:
        return "which reads more than text"
    if not getattr(config, "num_attention_heads", None):
        return "which has no attention"
    if cache_argument(model) is None:
        return "whose forward takes no cache of keys and values"
    if config.model_type == "gpt_neo":  # transformers 5 masks as if the text filled the cache
        return "which transformers computes wrongly with a cache of fixed size"
    if not all(hasattr(layer, "is_sliding") for layer in fixed_cache(config, 1).layers):
        return "which has layers that keep other things than keys and values"
    return ""


def fixed_cache(config, room: int):
    """A cache for `room` positions, without memory yet."""
    import transformers

    return transformers.StaticCache(config=config, max_cache_len=room)


def check_others(seed, streamer, report) -> None:
    """Raises ValueError where an argument of generation is not what is wanted."""
    whole = isinstance(seed, Integral) and not isinstance(seed, bool)
    if seed is not None and not (whole and -(1 << 63) <= seed < 1 << 64):
        raise ValueError(f"generate: seed: got {seed!r}, want an integer of 64 bits, or None")
    if streamer is not None and not (is_streamer(streamer) or callable(streamer)):
        raise ValueError(f"generate: streamer: got {type(streamer).__name__}, want a callable, an "
                         "object with put and end, or None")
    if report is not None and not isinstance(report, MutableMapping):
        raise ValueError(f"generate: report: got {type(report).__name__}, want a dict, or None")


def is_streamer(value) -> bool:
    """Whether it has what transformers asks of a streamer."""
    return callable(getattr(value, "put", None)) and callable(getattr(value, "end", None))

"""tv.generate: text from a decoder of transformers, with little around its steps."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from .settings import Settings

# Caches have a multiple of this many positions, so that few lengths of them are seen.
_CACHE_STEP = 128

_forwards: dict[tuple, Callable] = {}


def generate(model, input_ids: torch.Tensor, max_new_tokens: int = 20, *,
             attention_mask: torch.Tensor | None = None, do_sample: bool = False,
             temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0,
             repetition_penalty: float = 1.0, seed: int | None = None,
             eos_token_id: int | list[int] | None = None, pad_token_id: int | None = None,
             streamer=None, **settings: Any) -> torch.Tensor:
    """Continues token sequences with a decoder of transformers, its forward call compiled.

    Prompt and steps run through one static cache, which each step writes in place. Without sampling
    the tokens are those of `model.generate(do_sample=False)`; with it, of `do_sample=True` after
    `torch.manual_seed(seed)`: the processors are transformers' own, in its order.

    Args:
        model: a causal language model of transformers, in eval mode.
        input_ids: tokens, integers [batch, length]; shorter ones are padded on the left.
        max_new_tokens: at most so many are added; fewer where every sequence has ended.
        attention_mask: [batch, length], 0 for padding. None: nothing is padding.
        do_sample: draw from the distribution rather than take the most likely token.
        temperature, top_k, top_p, repetition_penalty: as transformers has them; top_k None or 0:
            all tokens.
        seed: of the draws; None: torch's own generator.
        eos_token_id: tokens that end a sequence; None: the model's.
        pad_token_id: what follows them; None: the model's, else the first that ends.
        streamer: an object with `put` and `end`, given the prompt and then each step's tokens.
        settings: of the backend (docs/settings.md).

    Returns:
        The prompts and what was added, [batch, length + added].

    Raises:
        ValueError: an argument is not what is wanted; the message says what is.
    """
    _check(model, input_ids, max_new_tokens, attention_mask)
    ends = _ends(model, eos_token_id)
    pad = _pad(model, pad_token_id, ends)
    processors = _processors(do_sample, temperature, top_k, top_p, repetition_penalty,
                             input_ids.device)
    generator = None
    if seed is not None:
        generator = torch.Generator(input_ids.device).manual_seed(seed)
    if streamer is not None:
        streamer.put(input_ids.cpu())
    ids, running = input_ids, torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
    with torch.no_grad():
        step = _Steps(model, input_ids, max_new_tokens, attention_mask, settings)
        logits = step(input_ids)
        for added in range(1, max_new_tokens + 1):
            scores = processors(ids, logits.float())
            tokens = _choose(scores, do_sample, generator)
            if ends is not None:
                tokens = torch.where(running, tokens, pad)
                running = running & ~torch.isin(tokens, ends)
            ids = torch.cat([ids, tokens[:, None]], 1)
            if streamer is not None:
                streamer.put(tokens.cpu())
            if added == max_new_tokens or ends is not None and not running.any():
                break
            logits = step(tokens[:, None])
    if streamer is not None:
        streamer.end()
    return ids


class _Steps:
    """The forward calls of one generation; called with tokens, gives the last one's logits."""

    def __init__(self, model, input_ids, max_new_tokens, attention_mask, settings):
        import transformers

        batch, length = input_ids.shape
        room = -(length + max_new_tokens) // _CACHE_STEP * -_CACHE_STEP
        self._model, self._forward = model, _compiled(type(model), settings)
        self._cache = transformers.StaticCache(config=model.config, max_cache_len=room)
        takes = inspect.signature(type(model).forward).parameters
        self._arguments = {"cache" if "cache" in takes else "past_key_values": self._cache,
                           "use_cache": True, "return_dict": True}
        if "logits_to_keep" in takes:
            self._arguments["logits_to_keep"] = 1
        self._mask = self._positions = None
        if attention_mask is not None and not attention_mask.all():
            # What is not there yet is hidden by its position.
            self._mask = torch.ones(batch, room, dtype=torch.long, device=input_ids.device)
            self._mask[:, :length] = attention_mask
            positions = attention_mask.long().cumsum(-1) - 1
            self._positions = positions.masked_fill(attention_mask == 0, 0)
            if "position_ids" not in takes:
                self._positions = None

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        arguments = dict(self._arguments)
        if self._mask is not None:
            arguments["attention_mask"] = self._mask
        if self._positions is not None:
            arguments["position_ids"] = self._positions
            self._positions = self._positions[:, -1:] + 1
        return self._forward(self._model, input_ids=tokens, **arguments).logits[:, -1]


def _compiled(kind: type, settings: dict[str, Any]) -> Callable:
    """The forward call of a class of models: the model is an argument of it."""
    key = (kind, tuple(sorted((name, repr(value)) for name, value in settings.items())))
    if key not in _forwards:
        Settings.from_options(settings)  # what is wrong with them is said here
        _forwards[key] = torch.compile(kind.forward, backend="vulkan", options=settings or None)
    return _forwards[key]


def _check(model, input_ids, max_new_tokens, attention_mask) -> None:
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "generate"):
        raise ValueError(f"generate: got {type(model).__name__}, want a causal language model of "
                         "transformers")
    if config.is_encoder_decoder or getattr(config, "num_attention_heads", None) is None:
        raise ValueError(f"generate: got {type(model).__name__}, want a decoder with attention; "
                         "model.generate with a compiled forward takes every model "
                         "(docs/generation.md)")
    if not isinstance(input_ids, torch.Tensor) or input_ids.dim() != 2 or (
            input_ids.dtype not in (torch.int32, torch.int64)) or 0 in input_ids.shape:
        got = f"{input_ids.dtype} {list(input_ids.shape)}" if isinstance(
            input_ids, torch.Tensor) else type(input_ids).__name__
        raise ValueError(f"generate: input_ids: got {got}, want integers [batch, length]")
    if not isinstance(max_new_tokens, int) or max_new_tokens < 1:
        raise ValueError(f"generate: max_new_tokens: got {max_new_tokens!r}, want 1 or more")
    if attention_mask is not None and attention_mask.shape != input_ids.shape:
        raise ValueError(f"generate: attention_mask: got {list(attention_mask.shape)}, want the "
                         f"shape of input_ids, {list(input_ids.shape)}")
    if attention_mask is not None and not attention_mask[:, -1].all():
        raise ValueError("generate: attention_mask hides a last token; pad on the left "
                         "(tokenizer.padding_side = \"left\")")
    limit = getattr(config, "max_position_embeddings", None)
    length = input_ids.shape[1]
    if limit is not None and length + max_new_tokens > limit:
        raise ValueError(f"generate: got a prompt of {length} tokens and max_new_tokens="
                         f"{max_new_tokens}, want at most {limit} together "
                         "(config.max_position_embeddings)")


def _ends(model, given) -> torch.Tensor | None:
    ends = model.generation_config.eos_token_id if given is None else given
    if ends is None:
        return None
    return torch.tensor([ends] if isinstance(ends, int) else list(ends), device=model.device)


def _pad(model, given, ends) -> int:
    pad = model.generation_config.pad_token_id if given is None else given
    return pad if pad is not None else int(ends[0]) if ends is not None else 0


def _processors(do_sample, temperature, top_k, top_p, repetition_penalty, device):
    """transformers' own, in the order in which its generate applies them."""
    from transformers.generation import logits_process as process

    found = process.LogitsProcessorList()
    if repetition_penalty != 1.0:
        found.append(process.RepetitionPenaltyLogitsProcessor(penalty=repetition_penalty))
    if do_sample and temperature != 1.0:
        found.append(process.TemperatureLogitsWarper(temperature))
    if do_sample and top_k:
        found.append(process.TopKLogitsWarper(top_k=top_k))
    if do_sample and top_p < 1.0:
        found.append(process.TopPLogitsWarper(top_p=top_p))
    return found


def _choose(scores, do_sample, generator) -> torch.Tensor:
    if not do_sample:
        return scores.argmax(-1)
    return torch.multinomial(scores.softmax(-1), 1, generator=generator)[:, 0]

"""tv.generate: text from a decoder of transformers, with little around its steps."""

import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .backend import vulkan
from .settings import Settings

# Caches have a multiple of this many positions, so that few lengths of them are seen.
_CACHE_STEP = 128

_steps: dict[tuple, Callable] = {}


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
    choice = _Choice(do_sample, temperature if do_sample else 1.0, (top_k or 0) if do_sample else 0,
                     top_p if do_sample else 1.0, repetition_penalty)
    ends = _ends(model, eos_token_id)
    generator = None
    if seed is not None:
        generator = torch.Generator(input_ids.device).manual_seed(seed)
    if streamer is not None:
        streamer.put(input_ids.cpu())
    added = []
    with torch.no_grad():
        steps = _Steps(model, input_ids, max_new_tokens, attention_mask, choice, ends,
                       _pad(model, pad_token_id, ends), generator, settings)
        for _ in range(max_new_tokens):
            tokens = steps.next()
            added.append(tokens)
            if streamer is not None:
                streamer.put(tokens.cpu())
            if ends is not None and not steps.running():
                break
    if streamer is not None:
        streamer.end()
    return torch.cat([input_ids, torch.stack(added, 1)], 1)


@dataclass(frozen=True)
class _Choice:
    """How a token is chosen from the scores of all; a part of the compiled step."""

    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float

    def processors(self):
        """transformers' own, in the order in which its generate applies them; the repetition
        penalty, which comes first, is `penalised`."""
        from transformers.generation import logits_process as process

        found = []
        if self.temperature != 1.0:
            found.append(process.TemperatureLogitsWarper(self.temperature))
        if self.top_k:
            found.append(process.TopKLogitsWarper(top_k=self.top_k))
        if self.top_p < 1.0:
            found.append(process.TopPLogitsWarper(top_p=self.top_p))
        return found

    def penalised(self, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """As RepetitionPenaltyLogitsProcessor, of a mask of tokens in place of a growing list."""
        lower = torch.where(scores < 0, scores * self.repetition_penalty,
                            scores / self.repetition_penalty)
        return torch.where(seen, lower, scores)


def _step_of(choice: _Choice) -> Callable:
    """What is compiled: a forward call, the choice of the next tokens, and all that the next call
    reads, left in the tensors of `state`."""
    processors = choice.processors()

    def step(model, ids, arguments, state):
        scores = model(input_ids=ids, **arguments).logits[:, -1].float()
        if state.seen is not None:
            scores = choice.penalised(scores, state.seen)
        for processor in processors:
            scores = processor(None, scores)
        # torch.multinomial draws one token in this way.
        tokens = (scores.softmax(-1) / state.noise if choice.do_sample else scores).argmax(-1)
        if state.ends is not None:
            tokens = torch.where(state.running, tokens, state.pad)
            state.running.logical_and_((tokens[:, None] != state.ends).all(-1))
        if state.seen is not None:
            state.seen.scatter_(1, tokens[:, None], True)
        if "position_ids" in arguments and ids is state.tokens:
            state.positions.add_(1)
        state.tokens.copy_(tokens[:, None])

    # Code of its own, because PyTorch counts recompilations by code.
    return types.FunctionType(step.__code__.replace(), step.__globals__, "step", None,
                              step.__closure__)


@dataclass
class _State:
    """Tensors that a step reads and leaves for the next one."""

    tokens: torch.Tensor  # [batch, 1], chosen last
    positions: torch.Tensor | None  # [batch, 1], of the next call; None: the model counts
    running: torch.Tensor  # [batch], false where a sequence has ended
    ends: torch.Tensor | None
    pad: int
    seen: torch.Tensor | None  # [batch, vocabulary], for the repetition penalty
    noise: torch.Tensor | None  # [batch, vocabulary], for sampling


class _Steps:
    """The forward calls of one generation. From the third step on, the step's graph is called again
    on what it was called with, without the model's Python, where that is known to be the same."""

    def __init__(self, model, input_ids, max_new_tokens, attention_mask, choice, ends, pad,
                 generator, settings):
        import transformers

        batch, length = input_ids.shape
        room = -(length + max_new_tokens) // _CACHE_STEP * -_CACHE_STEP
        self._model, self._step = model, _compiled(type(model), choice, settings)
        self._generator, self._ids, self._record, self._replays = generator, input_ids, None, None
        self._cache = transformers.StaticCache(config=model.config, max_cache_len=room)
        takes = inspect.signature(type(model).forward).parameters
        self._arguments = {"cache" if "cache" in takes else "past_key_values": self._cache,
                           "use_cache": True, "return_dict": True}
        if "logits_to_keep" in takes:
            self._arguments["logits_to_keep"] = 1
        positions = None
        if attention_mask is not None and not attention_mask.all():
            # What is not there yet is hidden by its position.
            mask = torch.ones(batch, room, dtype=torch.long, device=input_ids.device)
            mask[:, :length] = attention_mask
            self._arguments["attention_mask"] = mask
            if "position_ids" in takes:
                positions = attention_mask.long().cumsum(-1) - 1
                positions = positions.masked_fill(attention_mask == 0, 0)
                self._arguments["position_ids"] = positions
        self._state = self._make_state(choice, positions, ends, pad)

    def _make_state(self, choice, positions, ends, pad) -> _State:
        ids, batch = self._ids, len(self._ids)
        scores = (batch, self._model.config.get_text_config().vocab_size)
        seen = noise = None
        if choice.repetition_penalty != 1.0:
            seen = torch.zeros(scores, dtype=torch.bool, device=ids.device).scatter_(1, ids.long(),
                                                                                     True)
        if choice.do_sample:
            noise = torch.empty(scores, device=ids.device)
        tokens = torch.zeros(batch, 1, dtype=torch.long, device=ids.device)
        running = torch.ones(batch, dtype=torch.bool, device=ids.device)
        if positions is not None:
            positions = positions[:, -1:] + 1
        return _State(tokens, positions, running, ends, pad, seen, noise)

    def running(self) -> bool:
        """Whether a sequence has not ended."""
        return bool(self._state.running.any())

    def next(self) -> torch.Tensor:
        """The next tokens, [batch]."""
        if self._state.noise is not None:
            self._state.noise.exponential_(1, generator=self._generator)
        if self._replays is not None:
            self._replays()
        else:
            self._call()
        return self._state.tokens[:, 0].clone()

    def _call(self) -> None:
        first = self._ids is not self._state.tokens
        before = _python_state(self._cache)
        with _recording() as calls:
            self._step(self._model, self._ids, self._arguments, self._state)
        if first:  # the prompt
            self._ids = self._state.tokens
            if self._state.positions is not None:
                self._arguments["position_ids"] = self._state.positions
            return
        # The same graph on the same tensors, twice, and nothing but tensors changed.
        steady = before == _python_state(self._cache) and len(calls) == 1
        if steady and self._record is not None and _same_call(self._record, calls[0]):
            function, arguments = calls[0]
            self._replays = functools.partial(function, *arguments)
        self._record = calls[0] if steady else None


def _python_state(cache) -> list[dict]:
    """What the layers of a cache hold beside tensors, as the lengths of windows that slide."""
    return [{name: value for name, value in vars(layer).items()
             if not isinstance(value, torch.Tensor)} for layer in cache.layers]


def _same_call(a, b) -> bool:
    return a[0] is b[0] and len(a[1]) == len(b[1]) and all(
        x is y or type(x) is type(y) is int and x == y for x, y in zip(a[1], b[1], strict=True))


_recorded = threading.local()


@contextlib.contextmanager
def _recording():
    """Collects the calls of graphs compiled by `_backend`: (function, arguments)."""
    before, _recorded.calls = getattr(_recorded, "calls", None), []
    try:
        yield _recorded.calls
    finally:
        _recorded.calls = before


def _backend(module, example_inputs, **options):
    compiled = vulkan(module, example_inputs, **options)

    def call(*arguments):
        if (calls := getattr(_recorded, "calls", None)) is not None:
            calls.append((compiled, arguments))
        return compiled(*arguments)

    return call


def _compiled(kind: type, choice: _Choice, settings: dict[str, Any]) -> Callable:
    """The step of a class of models: the model is an argument of it."""
    key = (kind, choice, tuple(sorted((name, repr(value)) for name, value in settings.items())))
    if key not in _steps:
        Settings.from_options(settings)  # what is wrong with them is said here
        _steps[key] = torch.compile(_step_of(choice), backend=_backend, options=settings or None)
    return _steps[key]


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

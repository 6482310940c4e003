"""tv.generate: text from a decoder of transformers, with little around its steps."""

import contextlib
import functools
import inspect
import threading
import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import device_list
from ._fx.engine_call import RECOVERABLE
from ._fx.whole_graph import recorded
from ._torch import philox
from .backend import device_profile, vulkan
from .settings import Settings

# Caches have a multiple of this many positions, so that few lengths of them are seen.
_CACHE_STEP = 128
# A layer whose window slides keeps every position where that is not more than so many windows: what
# a window does not show is skipped, and nothing has to move.
_WINDOWS = 8
# On a GPU so many steps are begun before the host looks at what the first of them chose, and made
# by one submission unless the caller says otherwise.
_AHEAD = 8

_execute_call = torch.ops.torch_vulkan.execute_call.default
# Compiled steps, used last at the end; each holds its graphs and engines.
_steps: OrderedDict[tuple, Callable] = OrderedDict()
_MOST_STEPS = 12
_steps_change = threading.Lock()


def generate(model, input_ids: torch.Tensor, max_new_tokens: int = 20, *,
             attention_mask: torch.Tensor | None = None, do_sample: bool = False,
             temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0,
             repetition_penalty: float = 1.0, seed: int | None = None,
             draws: str = "torch", eos_token_id: int | list[int] | None = None,
             pad_token_id: int | None = None, streamer=None,
             steps_per_submission: int | None = None, report: dict | None = None,
             **settings: Any) -> torch.Tensor:
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
        draws: who makes random numbers: "torch", whose generator gives the tokens of transformers;
            or "device", the step itself, as functions of the seed and the place (docs/generation.md
            has the algorithm), with nothing for the host to do.
        eos_token_id: tokens that end a sequence; None: the model's; an empty list: none does.
        pad_token_id: what follows them; None: the model's, else the first that ends.
        streamer: an object with `put` and `end`, given the prompt and then each step's tokens.
        steps_per_submission: so many tokens are made by one submission to the device, and come
            back at once; the tokens are the same. Steps that need the host are made one by one.
            None: 8 on a GPU, 1 on a CPU device.
        report: gets how the steps were made: `steps` and the `calls` that they took; of these
            `engine_calls`, which had no Python around them, and the `submissions` to the device
            that the engine counted meanwhile; `reason`: why a call made one step, or "".
        settings: of the backend (docs/settings.md).

    Returns:
        The prompts and what was added, [batch, length + added].

    Raises:
        ValueError: an argument is not what is wanted; the message says what is.
    """
    _check(model, input_ids, max_new_tokens, attention_mask)
    _check_draws(draws, settings)
    if steps_per_submission is None:
        steps_per_submission = _together(input_ids, settings)
    if type(steps_per_submission) is not int or steps_per_submission < 1:
        raise ValueError(f"generate: steps_per_submission: got {steps_per_submission!r}, want 1 or "
                         "more")
    choice = _Choice(draws if do_sample else "", temperature if do_sample else 1.0,
                     (top_k or 0) if do_sample else 0, top_p if do_sample else 1.0,
                     repetition_penalty)
    ends = _ends(model, eos_token_id)
    if streamer is not None:
        streamer.put(input_ids.cpu())
    with torch.no_grad():
        steps = _Steps(model, input_ids, max_new_tokens, attention_mask, choice, ends,
                       _pad(model, pad_token_id, ends), seed, settings)
        steps.together = steps_per_submission
        added = _run(steps, max_new_tokens, ends, streamer)
    if report is not None:
        report.update(steps.report())
    if streamer is not None:
        streamer.end()
    return steps.text(added)


def _run(steps: "_Steps", most: int, ends: list[int] | None, streamer) -> int:
    """Makes steps until every sequence has ended, or `most`; returns how many count. What a GPU has
    computed beyond the end counts as little as what it has not."""
    looks = ends is not None or streamer is not None
    ahead = (_AHEAD if looks else most) if steps.runs_ahead else 1
    done, running = 0, [True] * steps.batch
    while done < most:
        begun, wanted = 0, min(ahead, most - done)
        while begun < wanted:
            begun += steps.next(most - done - begun)
        if not looks:
            done += begun
            continue
        for tokens in steps.chosen(done, begun):
            done += 1
            if streamer is not None:
                streamer.put(tokens)
            if ends is not None:
                running = [on and token not in ends
                           for on, token in zip(running, tokens.tolist(), strict=True)]
                if not any(running):
                    return done
    return done


@dataclass(frozen=True)
class _Choice:
    """How a token is chosen from the scores of all; a part of the compiled step."""

    draws: str  # who makes random numbers; "": the most likely token is taken
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
        if choice.draws:  # torch.multinomial draws one token in this way
            noise = state.noise if choice.draws == "torch" else _noise(state, *scores.shape)
            scores = scores.softmax(-1) / noise
        tokens = scores.argmax(-1)
        if state.ends is not None:
            tokens = torch.where(state.running, tokens, state.pad)
            state.running.logical_and_((tokens[:, None] != state.ends).all(-1))
        if state.seen is not None:
            state.seen.scatter_(1, tokens[:, None], True)
        if "position_ids" in arguments and ids is state.tokens:
            state.positions.add_(1)
        state.tokens.copy_(tokens[:, None])
        state.text.index_copy_(1, state.length, tokens[:, None])
        state.length.add_(1)

    # Code of its own, because PyTorch counts recompilations by code.
    return types.FunctionType(step.__code__.replace(), step.__globals__, "step", None,
                              step.__closure__)


def _noise(state, batch: int, vocabulary: int) -> torch.Tensor:
    """Draws of the exponential distribution, [batch, vocabulary], for the token behind `length`."""
    device = state.length.device
    token = torch.arange(vocabulary, device=device)
    row = torch.arange(batch, device=device)[:, None]
    drawn, *_ = philox.words((token, row, state.length, 0), (state.key[0], state.key[1]))
    return philox.exponential(drawn)


@dataclass
class _State:
    """Tensors that a step reads and leaves for the next one."""

    text: torch.Tensor  # [batch, room], the prompt and what was added
    length: torch.Tensor  # [1], of the text
    tokens: torch.Tensor  # [batch, 1], chosen last
    positions: torch.Tensor | None  # [batch, 1], of the next call; None: the model counts
    running: torch.Tensor  # [batch], false where a sequence has ended
    ends: torch.Tensor | None
    pad: int
    seen: torch.Tensor | None  # [batch, vocabulary], for the repetition penalty
    noise: torch.Tensor | None  # [batch, vocabulary], for sampling with PyTorch's generator
    key: torch.Tensor | None  # [2], for sampling by the step: the words of the seed


class _Steps:
    """The forward calls of one generation. From the third step on, the step's engine, or its graph,
    is called again on what it was called with, without the model's Python, where that is known to
    be the same."""

    def __init__(self, model, input_ids, max_new_tokens, attention_mask, choice, ends, pad,
                 seed, settings):
        batch, length = input_ids.shape
        room = -(length + max_new_tokens) // _CACHE_STEP * -_CACHE_STEP
        self.batch, self._prompt_length = batch, length
        self._truncates = Settings.from_options(settings).truncate_long_and_double
        self.runs_ahead = _runs_ahead(input_ids)
        self._model, self._step = model, _compiled(type(model), choice, settings)
        self._ids, self._record, self._again, self._engine = input_ids, None, None, None
        self.together, self._steps_made, self._calls_made = 1, 0, 0
        self._engine_calls_made, self._submitted_before = 0, 0
        self._cache = _cache(model.config, room)
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
        self._state = self._make_state(choice, positions, ends, pad, room)
        self._generator = self._seed(choice, seed)

    def _make_state(self, choice, positions, ends, pad, room) -> _State:
        ids, batch = self._ids, len(self._ids)
        scores = (batch, self._model.config.get_text_config().vocab_size)
        text = torch.full((batch, room), pad, device=ids.device)
        text[:, :self._prompt_length] = ids
        length = torch.full((1,), self._prompt_length, device=ids.device)
        seen = noise = key = None
        if choice.repetition_penalty != 1.0:
            seen = torch.zeros(scores, dtype=torch.bool, device=ids.device).scatter_(1, ids.long(),
                                                                                     True)
        if choice.draws == "torch":
            noise = torch.empty(scores, device=ids.device)
        if choice.draws == "device":
            key = torch.empty(2, dtype=torch.long, device=ids.device)
        if ends is not None:
            ends = torch.tensor(ends, device=ids.device)
        tokens = torch.zeros(batch, 1, dtype=torch.long, device=ids.device)
        running = torch.ones(batch, dtype=torch.bool, device=ids.device)
        if positions is not None:
            positions = positions[:, -1:] + 1
        return _State(text, length, tokens, positions, running, ends, pad, seen, noise, key)

    def _seed(self, choice, seed: int | None) -> torch.Generator | None:
        """PyTorch's generator, or none: what is drawn on the device has its key in the state."""
        if choice.draws == "torch":
            return None if seed is None else (
                torch.Generator(self._ids.device).manual_seed(seed))
        if choice.draws == "device":
            seed = int(torch.randint(1 << 62, ())) if seed is None else seed % (1 << 64)
            self._state.key.copy_(torch.tensor([seed & 0xFFFFFFFF, seed >> 32]))
        return None

    def text(self, added: int) -> torch.Tensor:
        """The prompt and the tokens that the first steps have added."""
        return self._state.text[:, :self._prompt_length + added].clone()

    def chosen(self, first: int, count: int) -> list[torch.Tensor]:
        """The tokens of `count` steps, [batch] each, on the CPU; waits for them."""
        begin = self._prompt_length + first
        return [*self._state.text[:, begin:begin + count].to("cpu", copy=True).unbind(1)]

    def next(self, most: int) -> int:
        """Makes a step, or several in one submission but not more than `most`; returns how many.
        The next tokens are the text's last."""
        if self._state.noise is not None:
            self._state.noise.exponential_(1, generator=self._generator)
        count = 1 if self._reason() else min(self.together, most)
        if self._engine is not None:
            _call_engine(self._engine, self._again, count)
            self._engine_calls_made += 1
        elif self._again is not None:
            self._again()
        else:
            self._call()
        self._steps_made += count
        self._calls_made += 1
        return count

    def _reason(self) -> str:
        """Why a call makes one step."""
        if self._state.noise is not None:
            return ("random numbers are drawn by PyTorch's generator before each step; with "
                    "draws='device' the step draws them")
        if self.together == 1:
            return "steps_per_submission is 1"
        if self._again is None and self._steps_made <= 3:
            return "the prompt and the first two steps are made one by one"
        if self._again is None:
            return ("the model's Python runs in each step: what its cache holds in Python, or "
                    "which tensors it is called with, changes (a window that slides does both)")
        if self._engine is None and self._truncates:
            return ("truncate_long_and_double=True: PyTorch copies the int64 tensors that a step "
                    "changes")
        if self._engine is None:
            return "a step is more than the call of one engine (options={'dryrun': True} says why)"
        return ""

    def report(self) -> dict[str, Any]:
        """How the steps were made."""
        counted = 0 if self._engine is None else (
            self._engine.engine().submissions() - self._submitted_before)
        return {"steps": self._steps_made, "calls": self._calls_made,
                "engine_calls": self._engine_calls_made, "submissions": counted,
                "reason": self._reason()}

    def _call(self) -> None:
        first = self._ids is not self._state.tokens
        before = _python_state(self._cache)
        with _recording() as calls, recorded() as engine_calls:
            self._step(self._model, self._ids, self._arguments, self._state)
        if first:  # the prompt
            self._ids = self._state.tokens
            if self._state.positions is not None:
                self._arguments["position_ids"] = self._state.positions
            return
        # The same graph on the same tensors, twice, and nothing but tensors changed.
        steady = before == _python_state(self._cache) and len(calls) == 1
        if steady and self._record is not None and _same_call(self._record, calls[0]):
            self._again = functools.partial(calls[0][0], *calls[0][1])
            if len(engine_calls) == 1:
                (self._engine,) = engine_calls
                self._submitted_before = self._engine.engine().submissions()
        self._record = calls[0] if steady else None


def _call_engine(call, graph: Callable, count: int) -> None:
    """Steps that one engine makes, without the graph around it, which knows what to do where the
    engine refuses before it writes anything."""
    try:
        _execute_call(call, count)
    except (ValueError, *RECOVERABLE):
        for _ in range(count):
            graph()


def _runs_ahead(ids: torch.Tensor) -> bool:
    """Whether a step is begun without waiting for the one before."""
    return ids.is_cuda


def _together(ids: torch.Tensor, settings: dict[str, Any]) -> int:
    """How many steps a submission makes where the caller does not say it: a CPU device gains
    nothing from more than one."""
    device = Settings.from_options(settings).device
    return 1 if device_profile(device_list.spec_for(device, ids.device)).is_cpu else _AHEAD


def _cache(config, room: int):
    import transformers
    from transformers.cache_utils import StaticLayer

    cache = transformers.StaticCache(config=config, max_cache_len=room)
    cache.layers = [StaticLayer(room) if layer.is_sliding and room <= _WINDOWS * layer.max_cache_len
                    else layer for layer in cache.layers]
    return cache


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
    with _steps_change:
        if key not in _steps:
            Settings.from_options(settings)  # what is wrong with them is said here
            _steps[key] = torch.compile(_step_of(choice), backend=_backend,
                                        options=settings or None)
        _steps.move_to_end(key)
        while len(_steps) > _MOST_STEPS:
            _steps.popitem(last=False)
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


def _check_draws(draws: str, settings: dict[str, Any]) -> None:
    if draws not in ("torch", "device"):
        raise ValueError(f"generate: draws: got {draws!r}, want 'torch' or 'device'")
    if draws == "device" and Settings.from_options(settings).truncate_long_and_double:
        raise ValueError("generate: draws='device' computes words of 32 bits in int64, which "
                         "truncate_long_and_double=True cuts; got both, want one")


def _ends(model, given) -> list[int] | None:
    """None: no token ends a text."""
    ends = model.generation_config.eos_token_id if given is None else given
    return [ends] if isinstance(ends, int) else [int(end) for end in ends or ()] or None


def _pad(model, given, ends) -> int:
    pad = model.generation_config.pad_token_id if given is None else given
    return pad if pad is not None else ends[0] if ends is not None else 0

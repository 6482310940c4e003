"""tv.generate: text from a decoder of transformers, with little around its steps."""

import contextlib
import functools
import inspect
import itertools
import operator
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .._base.settings import Settings
from .._device import device_list
from .._dynamo.backend import device_profile, vulkan
from .._fx.engine_call import RECOVERABLE
from .._fx.whole_graph import recorded
from . import models
from .request import Request, count_of, refuse_arguments, request_of
from .step import Choice, State, step_of

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


def generate(model, input_ids: torch.Tensor, max_new_tokens: int | None = None, *,
             attention_mask: torch.Tensor | None = None, do_sample: bool | None = None,
             temperature: float | None = None, top_k: int | None = None,
             top_p: float | None = None, min_p: float | None = None,
             repetition_penalty: float | None = None,
             suppress_tokens: list[int] | None = None,
             begin_suppress_tokens: list[int] | None = None,
             bad_words_ids: list[list[int]] | None = None, min_length: int | None = None,
             min_new_tokens: int | None = None, prefill_chunk_size: int | None = None,
             seed: int | None = None, draws: str = "torch",
             eos_token_id: int | list[int] | torch.Tensor | None = None,
             pad_token_id: int | None = None,
             streamer: Callable[[torch.Tensor], Any] | None = None,
             steps_per_submission: int | None = None, report: dict | None = None,
             **settings: Any) -> torch.Tensor:
    """Continues token sequences with a transformers decoder, whose forward call is compiled.

    The prompt and the steps share one static cache, which each step writes in place. The tokens are
    those of `model.generate` with the same arguments, after `torch.manual_seed(seed)` where it
    samples: the logits processors are transformers' own, in its order. Sampling arguments that are
    None come from `model.generation_config`, else from transformers' defaults.

    Args:
        model: a causal language model of transformers, in eval mode.
        input_ids: tokens, integers [batch, length]; shorter ones are padded on the left.
        max_new_tokens: at most so many are added; fewer where every sequence has ended. None: what
            the generation_config says by `max_new_tokens` or `max_length`, else 20.
        attention_mask: [batch, length], 0 for padding and 1 for tokens. None: each `pad_token_id`
            is padding, unless it ends a text, too.
        do_sample: draw from the distribution rather than take the most likely token.
        temperature, top_k, top_p, min_p: of draws, as transformers has them. top_k 0: all tokens;
            its default is 50.
        repetition_penalty, suppress_tokens, begin_suppress_tokens, min_length, min_new_tokens: as
            transformers has them.
        bad_words_ids: as transformers has them, of one token each.
        prefill_chunk_size: the prompt is read in parts of so many tokens, which bounds the memory
            that it takes.
        seed: of the draws; None: torch's own generator.
        draws: what makes random numbers: "torch", whose generator gives the tokens of transformers;
            or "device", the step itself, as functions of the seed and the place (docs/generation.md
            has the algorithm), with nothing for the host to do.
        eos_token_id: tokens that end a sequence; an empty list: none does.
        pad_token_id: what follows them; where the model has none either, the first that ends.
        streamer: a callable, given the new tokens of each step: int64 [batch] on the CPU, where a
            sequence that has ended has `pad_token_id`. Or a streamer of transformers, an object
            with `put` and `end`, whose `put` is given the prompt [batch, length] before them.
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
        ValueError: an argument is not what is wanted, or `model.generation_config` asks for what
            there is not; the message says what is wanted, or what to do.
    """
    models.check(model)
    models.check_prompt(input_ids)
    max_new_tokens = count_of(model, input_ids.shape[1], max_new_tokens)
    models.check_length(model.config, input_ids.shape[1], max_new_tokens)
    models.check_others(seed, streamer, report)
    if streamer is not None and not models.is_streamer(streamer):
        streamer = _Callback(streamer)
    seed = None if seed is None else int(seed)
    refuse_arguments(model, settings)
    request = request_of(model, {
        "do_sample": do_sample, "temperature": temperature, "top_k": top_k, "top_p": top_p,
        "min_p": min_p, "repetition_penalty": repetition_penalty,
        "suppress_tokens": suppress_tokens, "begin_suppress_tokens": begin_suppress_tokens,
        "bad_words_ids": bad_words_ids,
        "min_length": min_length, "min_new_tokens": min_new_tokens,
        "prefill_chunk_size": prefill_chunk_size, "eos_token_id": eos_token_id,
        "pad_token_id": pad_token_id})
    attention_mask = models.mask_of(input_ids, attention_mask, request.padding)
    input_ids = input_ids.long()
    _check_draws(draws, settings)
    together = _together(input_ids, settings, steps_per_submission)
    if streamer is not None:
        streamer.put(input_ids.cpu())
    with torch.no_grad():
        steps = _Steps(model, input_ids, max_new_tokens, attention_mask, request,
                       Choice.of(request, draws), seed, settings)
        steps.together, steps.watches = together, streamer is not None
        if request.prefill_chunk_size is not None:
            steps.read_ahead(request.prefill_chunk_size)
        added = _run(steps, max_new_tokens, request.ends, streamer)
    if report is not None:
        report.update(steps.report())
    if streamer is not None:
        streamer.end()
    return steps.text(added)


@dataclass(frozen=True)
class _Callback:
    """A callable as a streamer: it is given what is new."""

    take: Callable[[torch.Tensor], Any]

    def put(self, tokens: torch.Tensor) -> None:
        if tokens.dim() == 1:  # the prompt has two dimensions
            self.take(tokens)

    def end(self) -> None:
        pass


def _run(steps: "_Steps", most: int, ends: tuple[int, ...], streamer) -> int:
    """Makes steps until every sequence has ended, or `most`; returns how many count. What a GPU has
    computed beyond the end counts as little as what it has not."""
    looks = bool(ends) or streamer is not None
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
            if ends:
                running = [on and token not in ends
                           for on, token in zip(running, tokens.tolist(), strict=True)]
                if not any(running):
                    return done
    return done


class _Steps:
    """The forward calls of one generation. From the third step on, the step's engine, or its graph,
    is called again on what it was called with, without the model's Python, where that is known to
    be the same."""

    def __init__(self, model, input_ids, max_new_tokens, attention_mask, request: Request,
                 choice: Choice, seed, settings):
        batch, length = input_ids.shape
        room = -(length + max_new_tokens) // _CACHE_STEP * -_CACHE_STEP
        self.batch, self._prompt_length = batch, length
        self._truncates = Settings.from_options(settings).truncate_long_and_double
        self.runs_ahead = _runs_ahead(input_ids)
        self._model, self._step = model, _compiled(type(model), choice, settings)
        self._ids, self._record, self._again, self._engine = input_ids, None, None, None
        self.together, self._steps_made, self._calls_made = 1, 0, 0
        self._engine_calls_made, self._submitted_before = 0, 0
        self.watches, self._held = False, None
        self._one_by_one = 3  # steps, the prompt's with them
        self._cache = _cache(model.config, room)
        takes = inspect.signature(type(model).forward).parameters
        self._arguments = {models.cache_argument(model): self._cache,
                           "use_cache": True, "return_dict": True}
        if "logits_to_keep" in takes:
            self._arguments["logits_to_keep"] = 1
        positions = None
        if attention_mask is not None or models.masks_by_length(model.config):
            # What is not there yet is hidden by its position.
            mask = torch.ones(batch, room, dtype=torch.long, device=input_ids.device)
            if attention_mask is not None:
                mask[:, :length] = attention_mask
            self._arguments["attention_mask"] = mask
            if attention_mask is not None and "position_ids" in takes:
                positions = attention_mask.long().cumsum(-1) - 1
                positions = positions.masked_fill(attention_mask == 0, 0)
                self._arguments["position_ids"] = positions
        elif models.counts_from_padding(model):
            positions = torch.arange(length, device=input_ids.device).repeat(batch, 1)
            self._arguments["position_ids"] = positions
        self._state = self._make_state(request, choice, positions, room)
        if self._state.seen is not None:
            _mark_seen(self._state.seen, input_ids, attention_mask)
        self._generator = self._seed(choice, seed)

    def _make_state(self, request, choice, positions, room) -> State:
        ids, batch = self._ids, len(self._ids)
        scores = (batch, self._model.config.get_text_config().vocab_size)
        text = torch.full((batch, room), request.pad, device=ids.device)
        text[:, :self._prompt_length] = ids
        length = torch.full((1,), self._prompt_length, device=ids.device)
        seen = until = noise = key = ends = None
        if choice.repetition_penalty != 1.0:
            seen = torch.zeros(scores, dtype=torch.bool, device=ids.device)
        if choice.bans:
            until = request.banned_until(self._prompt_length, scores[1]).to(ids.device)
        if choice.draws == "torch":
            noise = torch.empty(scores, device=ids.device)
        if choice.draws == "device":
            key = torch.empty(2, dtype=torch.long, device=ids.device)
        if request.ends:
            ends = torch.tensor(request.ends, device=ids.device)
        tokens = torch.zeros(batch, 1, dtype=torch.long, device=ids.device)
        running = torch.ones(batch, dtype=torch.bool, device=ids.device)
        if positions is not None:
            positions = positions[:, -1:] + 1
        return State(text, length, tokens, positions, running, ends, request.pad, seen,
                     until, noise, key)

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

    def read_ahead(self, size: int) -> None:
        """Puts all parts of the prompt, of `size` tokens, but the last into the cache, by calls
        that leave the state as it is."""
        *parts, self._ids = self._ids.split(size, 1)
        positions = self._arguments.pop("position_ids", None)
        of_parts = [None] if positions is None else positions.split(size, 1)
        for ids, places in itertools.zip_longest(parts, of_parts[:-1]):
            given = self._arguments if places is None else (
                self._arguments | {"position_ids": places})
            with _guarded_hooks():
                self._step(self._model, ids, given, self._state.copied())
        if positions is not None:
            self._arguments["position_ids"] = of_parts[-1]

    def next(self, most: int) -> int:
        """Makes a step, or several in one submission but not more than `most`; returns how many.
        The next tokens are the text's last."""
        if self._state.noise is not None:
            self._state.noise.exponential_(1, generator=self._generator)
        if self._held is not None and not self._held.unchanged():
            self._look_again()
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
        if self._again is None and self._steps_made <= self._one_by_one:
            return ("the prompt and the first two steps are made one by one, and so are two behind "
                    "a change of the model's parts")
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
        counted = -self._submitted_before if self._engine is None else (
            self._engine.engine().submissions() - self._submitted_before)
        return {"steps": self._steps_made, "calls": self._calls_made,
                "engine_calls": self._engine_calls_made, "submissions": counted,
                "reason": self._reason()}

    def _look_again(self) -> None:
        """The next step goes through the model's Python, which has other parts now."""
        if self._engine is not None:
            self._submitted_before -= self._engine.engine().submissions()
        self._again = self._engine = self._record = self._held = None
        self._one_by_one = self._steps_made + 2

    def _call(self) -> None:
        first = self._ids is not self._state.tokens
        before = _python_state(self._cache)
        with _recording() as calls, recorded() as engine_calls, _guarded_hooks():
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
            self._held = _Held(self._model) if self.watches else None
            if len(engine_calls) == 1:
                (self._engine,) = engine_calls
                self._submitted_before += self._engine.engine().submissions()
        self._record = calls[0] if steady else None


class _Held:
    """The parameters, buffers, parts and hooks of a model, which a caller's code can replace
    between steps."""

    def __init__(self, model):
        self._places = [place for module in model.modules() for place in (
            module._parameters, module._buffers, module._modules, module._forward_hooks,
            module._forward_pre_hooks)]
        self._count = self._entries()
        self._filled = [place for place in self._places if place]  # most have nothing
        self._before = self._values()

    def unchanged(self) -> bool:
        now = self._values()
        return self._entries() == self._count and len(now) == len(self._before) and (
            all(map(operator.is_, now, self._before)))

    def _entries(self) -> int:
        return sum(map(len, self._places))

    def _values(self) -> list:
        return [*itertools.chain.from_iterable(map(dict.values, self._filled))]


def _mark_seen(seen: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor | None) -> None:
    """Marks the tokens of prompts, [batch, vocabulary], but for padding in front of them."""
    vocabulary = seen.shape[1]
    ids = ids.clamp(max=vocabulary)
    if mask is not None:
        ids = ids.masked_fill(mask.cumsum(-1) == 0, vocabulary)
    beyond = torch.nn.functional.pad(seen, (0, 1)).scatter_(1, ids, True)
    seen.copy_(beyond[:, :vocabulary])


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


def _together(ids: torch.Tensor, settings: dict[str, Any], given: int | None) -> int:
    """How many steps a submission makes. Where the caller does not say it, one on a CPU device,
    which gains nothing from more."""
    if given is not None:
        if type(given) is not int or given < 1:
            raise ValueError(f"generate: steps_per_submission: got {given!r}, want 1 or more")
        return given
    device = Settings.from_options(settings).device
    return 1 if device_profile(device_list.spec_for(device, ids.device)).is_cpu else _AHEAD


def _cache(config, room: int):
    from transformers.cache_utils import StaticLayer

    cache = models.fixed_cache(config, room)
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


def _guarded_hooks():
    """Dynamo looks at the hooks of modules, too: a step serves all models of a class."""
    return torch._dynamo.config.patch(skip_nnmodule_hook_guards=False)


def _backend(module, example_inputs, **options):
    compiled = vulkan(module, example_inputs, **options)

    def call(*arguments):
        if (calls := getattr(_recorded, "calls", None)) is not None:
            calls.append((compiled, arguments))
        return compiled(*arguments)

    return call


def _compiled(kind: type, choice: Choice, settings: dict[str, Any]) -> Callable:
    """The step of a class of models: the model is an argument of it."""
    key = (kind, choice, Settings.from_options(settings))  # what is wrong with them is said here
    with _steps_change:
        if key not in _steps:
            _steps[key] = torch.compile(step_of(choice), backend=_backend,
                                        options=settings or None)
        _steps.move_to_end(key)
        while len(_steps) > _MOST_STEPS:
            _steps.popitem(last=False)
        return _steps[key]


def _check_draws(draws: str, settings: dict[str, Any]) -> None:
    if draws not in ("torch", "device"):
        raise ValueError(f"generate: draws: got {draws!r}, want 'torch' or 'device'")
    if draws == "device" and Settings.from_options(settings).truncate_long_and_double:
        raise ValueError("generate: draws='device' computes words of 32 bits in int64, which "
                         "truncate_long_and_double=True cuts; got both, want one")

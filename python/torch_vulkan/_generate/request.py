"""What a generation is asked for: by arguments, else by the model's generation_config, else by the
defaults of transformers. What that asks for beyond it is refused by name."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch

from .._base.setting_checks import ROWS

# New tokens where nobody says how many; as in transformers.
_USUAL = 20
_ELSEWHERE = ("compile the forward call and use model.generate, which has it "
              "(docs/generation.md)")


@dataclass(frozen=True)
class Request:
    """How tokens are chosen, in the terms of transformers; `_KINDS` has the defaults."""

    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    suppress_tokens: tuple[int, ...]
    begin_suppress_tokens: tuple[int, ...]
    bad_words_ids: tuple[int, ...]  # of one token each
    min_length: int
    min_new_tokens: int | None  # instead of min_length
    prefill_chunk_size: int | None  # tokens of a prompt in one call; None: all
    ends: tuple[int, ...]
    pad: int
    padding: int | None  # the token that is padding in prompts without a mask

    def bans(self) -> bool:
        """Whether some token cannot be chosen at some place."""
        least = self.ends and self.least_length(0)
        return bool(self.suppress_tokens or self.begin_suppress_tokens or self._never() or least)

    def _never(self) -> tuple[int, ...]:
        """Bad words; a token that ends texts is none."""
        return tuple(token for token in self.bad_words_ids if token not in self.ends)

    def least_length(self, prompt: int) -> int:
        """Of a text before it may end."""
        return self.min_length if self.min_new_tokens is None else prompt + self.min_new_tokens

    def banned_until(self, prompt: int, vocabulary: int) -> torch.Tensor:
        """The length, [vocabulary], that a text has to have before each token can follow it."""
        until = torch.zeros(vocabulary, dtype=torch.long)
        for tokens, length in (
                (self.ends, self.least_length(prompt)),
                (self.begin_suppress_tokens, prompt + 1),
                (self.suppress_tokens + self._never(), (1 << 31) - 1)):
            known = [token for token in tokens if 0 <= token < vocabulary]
            until[known] = until[known].clamp(min=length)
        return until


def request_of(model, given: Mapping[str, Any]) -> Request:
    """What is asked for by arguments of tv.generate, of which None is the model's.

    Raises:
        ValueError: a value is not what is wanted, or the model's generation_config asks for what
            there is not.
    """
    samples = _value(model, "do_sample", given.get("do_sample"))
    # A file may say how to sample, as nothing does where nothing is sampled.
    values = {name: _value(model if samples or name not in _SAMPLED else None, name,
                           given.get(name)) for name in _KINDS}
    _refuse_others(model, values["do_sample"])
    size = model.config.get_text_config().vocab_size
    if strange := [token for token in values["bad_words_ids"] if not 0 <= token < size]:
        raise ValueError(f"generate: bad_words_ids has {strange}, want tokens of {size}")
    ends = ends_of(model, given.get("eos_token_id"))
    pad = _pad(model, given.get("pad_token_id"))
    return Request(**values, ends=ends, padding=None if pad in ends else pad,
                   pad=_first_end(model, ends) if pad is None else pad)


def count_of(model, length: int, given: int | None) -> int:
    """How many tokens are added to a prompt of `length` tokens at most: by the argument, or the
    model's generation_config, in the order of transformers, or 20.

    Raises:
        ValueError: that is no number of tokens.
    """
    import transformers

    value, label = _found(model, "max_new_tokens", given)
    if value is None:
        value, label = _found(model, "max_length", None)
        if value is None or value == transformers.GenerationConfig().max_length:
            limit = getattr(model.config, "max_position_embeddings", None) or length + _USUAL
            return max(1, min(_USUAL, limit - length))
        total = _checked(label, value, (_some, "an integer, 1 or more"))
        if total <= length:
            raise ValueError(f"generate: {label}: got {total} for a prompt of {length} tokens: "
                             "give max_new_tokens, or raise it")
        return total - length
    return _checked(label, value, (_some, "1 or more"))


def ends_of(model, given=None) -> tuple[int, ...]:
    """The tokens that end a text: those given, or the model's."""
    found, label = _found(model, "eos_token_id", given)
    return () if found is None else _checked(label, found, _TOKENS)


def refuse_arguments(model, settings: Mapping[str, Any]) -> None:
    """Raises ValueError for those of model.generate among what should be settings."""
    import transformers

    theirs = {*vars(transformers.GenerationConfig()), *inspect.signature(model.generate).parameters}
    for name in settings:
        if name in theirs and name not in ROWS:
            raise ValueError(f"generate: tv.generate does not have {name}: {_ELSEWHERE}")


def _whole(value) -> int | None:
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def _counted(value) -> int | None:
    number = _whole(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def _some(value) -> int | None:
    return _counted(value) or None


def _real(value) -> float | None:
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None


def _positive(value) -> float | None:
    number = _real(value)
    return number if number is not None and number > 0 and math.isfinite(number) else None


def _share(value) -> float | None:
    number = _real(value)
    return number if number is not None and 0 <= number <= 1 else None


def _flag(value) -> bool | None:
    return value if isinstance(value, bool) else None


def _tokens(value) -> tuple[int, ...] | None:
    """Of a number, or a list or tensor of them; those that no vocabulary has end nothing."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    each = [*map(_whole, value if isinstance(value, (list, tuple)) else [value])]
    return tuple(each) if all(x is not None and abs(x) < 1 << 31 for x in each) else None


def _words(value) -> tuple[int, ...] | None:
    """Of words of one token each."""
    each = [_tokens(word) for word in value if isinstance(word, (list, tuple))] if isinstance(
        value, (list, tuple)) else None
    whole = each is not None and len(each) == len(value) and all(
        word is not None and len(word) == 1 for word in each)
    return tuple(token for (token,) in each) if whole else None


_TOKENS = (_tokens, "a token or a list of tokens")
_WORDS = (_words, "a list of words of one token each, as [[5], [7]]; for longer ones " + _ELSEWHERE)
# name → default, how a value is read (None: it is none), what is wanted
_KINDS = {
    "do_sample": (False, (_flag, "True or False")),
    "temperature": (1.0, (_positive, "a finite number above 0")),
    "top_k": (50, (_counted, "an integer, 0 or more")),
    "top_p": (1.0, (_share, "a number from 0 to 1")),
    "min_p": (0.0, (_share, "a number from 0 to 1")),
    "repetition_penalty": (1.0, (_positive, "a finite number above 0")),
    "suppress_tokens": ((), _TOKENS), "begin_suppress_tokens": ((), _TOKENS),
    "bad_words_ids": ((), _WORDS),
    "min_length": (0, (_counted, "an integer, 0 or more")),
    "min_new_tokens": (None, (_counted, "an integer, 0 or more")),
    "prefill_chunk_size": (None, (_some, "an integer, 1 or more")),
}
_SAMPLED = {"temperature", "top_k", "top_p", "min_p"}
# Of a generation_config: other settings with the values that change no token, ...
_NEUTRAL = {"num_beams": 1, "num_return_sequences": 1, "no_repeat_ngram_size": 0,
            "encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1, "guidance_scale": 1,
            "remove_invalid_values": False, "renormalize_logits": False, "token_healing": False,
            "penalty_alpha": 0, "typical_p": 1, "epsilon_cutoff": 0, "eta_cutoff": 0,
            "use_mtp": False, "is_assistant": False, "return_dict_in_generate": False}
# ... those that change none without sampling, ...
_OF_SAMPLING = {"typical_p", "epsilon_cutoff", "eta_cutoff", "top_h",
                "prompt_lookup_num_tokens", "assistant_early_exit"}
# ... caches that change none either, ...
_CACHES = {"static", "dynamic", "sliding_window", "hybrid", "hybrid_chunked"}
# ... and settings that never do, that other settings here have to ask for, or that are read above.
_OTHERS = {
    "max_length", "max_new_tokens", "eos_token_id", "pad_token_id", "bos_token_id",
    "decoder_start_token_id", "use_cache", "cache_config", "max_cache_len",
    "early_stopping", "length_penalty", "num_beam_groups", "diversity_penalty",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule", "assistant_confidence_threshold", "max_matching_ngram_size",
    "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight", "speculation_type",
    "compile_config", "disable_compile", "continuous_batching_config", "low_memory",
    "_from_model_config", "transformers_version"}


def _found(model, name: str, given):
    """(a value or None, what messages call it)"""
    if given is not None:
        return given, name
    config = getattr(model, "generation_config", None)
    return getattr(config, name, None), f"model.generation_config.{name}"


def _checked(label: str, value, kind):
    read, want = kind
    found = read(value)
    if found is None:
        raise ValueError(f"generate: {label}: got {value!r}, want {want}")
    return found


def _value(model, name: str, given):
    default, kind = _KINDS[name]
    value, label = _found(model, name, given)
    return default if value is None else _checked(label, value, kind)


def _pad(model, given) -> int | None:
    """The token that is padding: the one given, or the model's, if it has one."""
    value, label = _found(model, "pad_token_id", given)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    number, size = _whole(value), model.config.get_text_config().vocab_size
    if value is None or given is None and number is not None and number < 0:  # files have -1
        return None
    if number is None or not 0 <= number < size:
        raise ValueError(f"generate: {label}: got {value!r}, want a token of {size}")
    return number


def _first_end(model, ends: tuple[int, ...]) -> int:
    """What follows the end of a text where nothing is padding; 0 if no token ends one."""
    size = model.config.get_text_config().vocab_size
    return next((end for end in ends if 0 <= end < size), 0)


def _refuse_others(model, samples: bool) -> None:
    """Raises ValueError where a generation_config asks for what there is not."""
    import transformers

    passed = _KINDS.keys() | _OTHERS | (set() if samples else _OF_SAMPLING)
    for name in vars(transformers.GenerationConfig()):
        value = getattr(model.generation_config, name, None)
        if name in passed or value is None or value == _NEUTRAL.get(name):
            continue
        if name == "cache_implementation" and value in _CACHES:
            continue
        raise ValueError(f"generate: model.generation_config.{name} is {value!r}, which "
                         f"tv.generate does not have: set it to None, or {_ELSEWHERE}")

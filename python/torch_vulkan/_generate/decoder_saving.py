"""tv.save_decoder: a decoder as a folder from which `vkexec generate` makes text."""

import inspect
import json
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .._base import whole_files
from .._base.inputs import Input
from .._engines.engine import Engine, tensor_bytes
from .._program.program import compile as compile_module
from . import models
from .request import ends_of

_VERSION = 2
# Tokens of a prompt that an engine reads at a time, and how many its kernels are chosen for.
_CHUNK, _USUAL = 512, 128
_LEAST = 16
_INFO, _WEIGHTS, _TOKENIZER = "generation.json", "weights.safetensors", "tokenizer.json"


def save_decoder(model, folder: str | os.PathLike, max_length: int, *, tokenizer=None,
                 **settings: Any) -> None:
    """Writes a decoder of transformers for `vkexec generate`, which needs neither Python nor torch.

    The folder gets two engines, `prompt.vke` for a prompt (read in parts of up to 512 tokens)
    and `step.vke` for one token more, which chooses the most likely one itself;
    `weights.safetensors` with the weights of both; and `generation.json`. The cache of keys and
    values is state of the engines, with room for `max_length` tokens, written in place; layers
    whose window slides keep every position, too.

    Args:
        model: a causal language model of transformers, in eval mode, as tv.generate takes it.
        folder: made if it is not there; files of an older call are replaced.
        max_length: tokens of the longest text, prompt and answer together.
        tokenizer: a fast tokenizer of transformers, or one of the tokenizers library, to be written
            as `tokenizer.json`; None: `vkexec generate --tokenizer` names a file.
        settings: of the compiler (docs/settings.md).

    Raises:
        ValueError: an argument is not what is wanted; the message says what is.
        UnsupportedError: a part of the model does not run in an engine; the message says which.
        OSError: a file cannot be written.
    """
    if not isinstance(max_length, int) or max_length < _LEAST:
        raise ValueError(f"save_decoder: max_length: got {max_length!r}, want {_LEAST} or more")
    models.check(model)
    models.check_length(model.config, 1, max_length - 1)
    if models.counts_from_padding(model):
        raise ValueError(f"save_decoder: got {type(model).__name__}, whose positions depend on its "
                         "tokens (on padding): tv.generate takes it")
    text = None if tokenizer is None else _tokenizer_text(tokenizer)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _INFO).unlink(missing_ok=True)  # what is there is not whole from here on
    chunk = min(_CHUNK, max_length)
    usual = min(_USUAL, chunk)
    prompts = Input(min_shape=(1, 2), opt_shape=(1, usual), max_shape=(1, chunk),
                    dtype=torch.long)
    weights: dict[str, torch.Tensor] = {}
    counted = _counts_by_mask(model)
    for kind, name, ids in ((_Step, "prompt", prompts),
                            (_ChoosingStep, "step", Input(shape=(1, 1), dtype=torch.long))):
        with torch.no_grad():
            step = kind(model, max_length, counted)
            program = compile_module(step, inputs=[ids], **settings, require_full_compilation=True)
        _save_engine(program, folder / f"{name}.vke", weights)
    _save_weights(weights, folder / _WEIGHTS)
    if text is not None:
        whole_files.write_text(folder / _TOKENIZER, text, "save_decoder")
    info = {"version": _VERSION, "model": type(model).__name__, "vocabulary": step.vocabulary,
            "positions": max_length, "chunk": chunk, "ends": _ends(model, step.vocabulary)}
    whole_files.write_text(folder / _INFO, json.dumps(info, indent=1) + "\n", "save_decoder")


def _ends(model, vocabulary: int) -> list[int]:
    """The tokens that end a text. What is no token ends none, as in transformers."""
    ends = ends_of(model)
    if strange := [end for end in ends if not 0 <= end < vocabulary]:
        warnings.warn(f"torch_vulkan: save_decoder: model.generation_config.eos_token_id has "
                      f"{strange}, which are none of the model's {vocabulary} tokens: they end no "
                      "text, and are left out", stacklevel=3)
    return [end for end in ends if end not in strange]


def _counts_by_mask(model) -> bool:
    """Whether a model makes positions (OPT) or a bias (Falcon) from a mask as long as the text is:
    a size that depends on data, unless it is given a mask of the whole cache, and positions."""
    return models.masks_by_length(model.config) or any(
        "attention_mask" in inspect.signature(type(module).forward).parameters
        for module in model.modules() if isinstance(module, nn.Embedding))


class _Step(nn.Module):
    """The scores [1, vocabulary] of what follows tokens [1, length]; the cache's tensors are
    buffers, which each call changes. Parameters and layers have the names that they have in the
    model, for settings that go by them."""

    def __init__(self, model, room: int, counted: bool):
        super().__init__()
        from transformers.cache_utils import StaticLayer

        self._model = (model,)  # its parts are this module's, not the whole
        for name, part in model.named_children():
            self.add_module(name, part)
        for name, parameter in model.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        self._cache = models.fixed_cache(model.config, room)
        self._cache.layers = [StaticLayer(room) for _ in self._cache.layers]
        takes = inspect.signature(type(model).forward).parameters
        self._arguments = {models.cache_argument(model): self._cache,
                           "use_cache": True, "return_dict": True}
        if "logits_to_keep" in takes:
            self._arguments["logits_to_keep"] = 1
        if counted:
            self.register_buffer("seen", torch.ones(1, room, dtype=torch.long, device=model.device))
        first = torch.zeros(1, 1, dtype=torch.long, device=model.device)
        # The layers make their tensors at the first call.
        self.vocabulary = model(input_ids=first, **self._arguments).logits.shape[-1]
        self._state = [(layer, name, f"{name}_{i}") for i, layer in enumerate(self._cache.layers)
                       for name, value in vars(layer).items() if isinstance(value, torch.Tensor)]
        for layer, name, buffer in self._state:
            self.register_buffer(buffer, torch.zeros_like(getattr(layer, name)))

    def forward(self, ids):
        for layer, name, buffer in self._state:
            setattr(layer, name, getattr(self, buffer))
        given = self._arguments
        if hasattr(self, "seen"):
            places = torch.arange(ids.shape[1], device=ids.device) + self.cumulative_length_0
            given = {"attention_mask": self.seen, "position_ids": places[None], **given}
        (model,) = self._model
        return model(input_ids=ids, **given).logits[:, -1].float()


class _ChoosingStep(_Step):
    """Leaves the most likely token in `ids`, for the next step to read, and behind those that it
    has chosen before, or -1 there where scores are no numbers."""

    def __init__(self, model, room: int, counted: bool):
        super().__init__(model, room, counted)
        self.register_buffer("chosen", torch.zeros(1, room, dtype=torch.long, device=model.device))
        self.register_buffer("made", torch.zeros(1, dtype=torch.long, device=model.device))

    def forward(self, ids):
        scores = super().forward(ids)
        token = scores.argmax(-1)
        wrong = scores.isnan().any(-1)
        self.chosen.index_copy_(1, self.made, torch.where(wrong, -1, token)[:, None])
        self.made.add_(1)
        ids.copy_(token[:, None])
        return scores


def _save_engine(program, path: Path, weights: dict[str, torch.Tensor]) -> None:
    """Writes the engine without its weights, which are added to `weights`."""
    objects = program.engine_objects()
    if len(objects) != 1:
        raise ValueError(f"save_decoder: got {len(objects)} engines for {path.name}, want one")
    ((name, engine),) = objects.items()
    alone = Engine(tensor_bytes(engine.vke()), engine.device() or None)
    alone.set_conditions(program.signature.conditions)
    alone.save(path, strip_weights=True)
    held = program.weights_of(name)
    for binding, tensor in zip(alone.info()["weights"], held, strict=True):
        known = weights.setdefault(binding["name"], tensor.detach())
        if known.data_ptr() != tensor.data_ptr() and not torch.equal(known, tensor):
            raise ValueError(f"save_decoder: the engines have two weights {binding['name']!r}")


def _save_weights(weights: dict[str, torch.Tensor], path: Path) -> None:
    from safetensors.torch import save

    places, apart = set(), {}
    for name, tensor in weights.items():
        whole = tensor.cpu().contiguous()
        # The format has no tensors that share memory.
        shared = whole.untyped_storage().data_ptr() in places
        apart[name] = whole.clone() if shared else whole
        places.add(whole.untyped_storage().data_ptr())
    with whole_files.written(path, "save_decoder") as file:
        file.write(save(apart))


def _tokenizer_text(tokenizer) -> str:
    inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(inner, "to_str"):
        raise ValueError(f"save_decoder: tokenizer: got {type(tokenizer).__name__}, want a fast "
                         "tokenizer of transformers, or None")
    return inner.to_str()

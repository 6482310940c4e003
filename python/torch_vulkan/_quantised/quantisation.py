"""tv.quantize: a module whose linear layers hold their weights in 8 or 4 bits."""

import copy
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import nn

from . import checkpoints, pruning
from .modules import Form, Packed, Quantized, QuantizedEmbedding, QuantizedLinear
from .small_floats import SCHEMES

__all__ = ["QuantizedEmbedding", "QuantizedLinear", "quantize"]

_INTEGERS = {"int8": Form("int8", 8), "int4": Form("int4", 4)}
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
GROUP_SIZE = 32  # of 4-bit weights, where none is given


@dataclass(frozen=True)
class _Scheme:
    """How weights are quantised."""

    form: Form
    group_size: int | None  # None: a row is a group
    symmetric: bool

    @property
    def bits(self) -> int:
        return self.form.bits

    def module(self, name: str, module: nn.Module) -> Quantized:
        kind = QuantizedLinear if isinstance(module, nn.Linear) else QuantizedEmbedding
        weight = module.weight.detach()
        self._check(name, weight)
        packed = (SCHEMES[self.form.name].packed(weight, self.group_size) if self.form.format
                  else self._packed_integers(weight))
        return kind(module, self.form, packed).train(module.training)

    def _packed_integers(self, weight: torch.Tensor) -> Packed:
        size = self.group_size or weight.shape[1]
        groups = weight.float().unflatten(1, (-1, size))
        low, high = groups.amin(-1), groups.amax(-1)
        most = 2 ** (self.bits - 1) - 1
        if self.symmetric:
            scale = self._scale(torch.maximum(-low, high) / most, weight.dtype)
            elements = groups / scale.float().unsqueeze(-1)
            elements = elements.round().clamp(-most - 1, most)
            zero = None
        else:  # 0 is an element, as it often is a weight
            low, high = low.clamp(max=0), high.clamp(min=0)
            scale = self._scale((high - low) / (2 * most + 1), weight.dtype)
            zero = (-low / scale.float()).round().clamp(0, 2 * most + 1)
            elements = (groups / scale.float().unsqueeze(-1)).round() + zero.unsqueeze(-1)
            elements, zero = elements.clamp(0, 2 * most + 1), zero.to(torch.uint8)
        elements = elements.flatten(1)
        if self.bits == 4:
            pairs = (elements + 8 * self.symmetric).to(torch.uint8).unflatten(-1, (-1, 2))
            return Packed(pairs[..., 0] | pairs[..., 1] << 4, scale, zero)
        return Packed(elements.to(torch.int8 if self.symmetric else torch.uint8), scale, zero)

    @staticmethod
    def _scale(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """As it is held; groups of zeros have some scale, too."""
        held = torch.float32 if dtype == torch.float64 else dtype
        return scale.clamp(min=torch.finfo(held).tiny).to(held)

    def _check(self, name: str, weight: torch.Tensor) -> None:
        if weight.is_meta or weight.dtype not in _FLOATS:
            raise ValueError(f"tv.quantize: weight {name!r} is {weight.dtype} on {weight.device}; "
                             "floating-point numbers with data are quantised")
        if not torch.isfinite(weight).all():
            raise ValueError(f"tv.quantize: weight {name!r} holds infinities or NaN")
        rows = weight.shape[1]
        if rows == 0 or rows % (self.group_size or 1) or (self.bits == 4 and rows % 2):
            raise ValueError(
                f"tv.quantize: weight {name!r} has rows of {rows} elements, which groups of "
                f"{self.group_size or 2} do not divide: choose another group_size, or leave the "
                f"layer as it is with exclude=[{re.escape(name.removesuffix('.weight'))!r}]")


def quantize(model: nn.Module, weights: str | None = None, *, group_size: int | None = None,
             symmetric: bool | None = None, sparsity: str | None = None, embeddings: bool = False,
             exclude: Sequence[str] = (), inplace: bool = False,
             checkpoint: str | os.PathLike | Mapping[str, torch.Tensor] | None = None,
             layout: str | None = None) -> nn.Module:
    """Quantises the weights of every `nn.Linear` of a module, or loads them quantised.

    The result computes in the dtype of its inputs, in eager mode as when compiled; engines read the
    packed weights as they are. docs/low_precision.md.

    Args:
        model: in eval or training mode; nothing is trained. Layers that the module's own code reads
            as tensors (nn.MultiheadAttention's) stay as they are.
        weights: "int8" (None, too, without `sparsity`) or "int4": integers. "fp8_e4m3",
            "fp8_e5m2": floating-point numbers of 8 bits with scales of the weight's dtype. "mxfp8",
            "mxfp4": of 8 and 4 bits, in groups of 32 with powers of two for scales. "nvfp4": of 4
            bits, in groups of 16 with scales of 8 bits (e4m3) and one float32.
        group_size: elements of a row that share a scale. None: a row (of 8 bits), 32 ("int4"), or
            what the format says (MX, NVFP4), which leaves no choice.
        symmetric: of integers; no zero points: scales fit the largest magnitude. None: True for
            "int8", False for "int4".
        sparsity: "2:4": of each four neighbours in a row of a linear layer's weight the two of
            smallest magnitude become 0 first. With weights=None that is all, and the weights stay
            floating-point; the setting `sparse_weights` makes engines leave out their zeros.
        embeddings: quantise every `nn.Embedding`, too.
        exclude: regular expressions, searched for in names of layers; these stay floating-point.
        inplace: change `model` itself. Otherwise the result is a copy, and `model` stays as it is.
        checkpoint: of AWQ or GPTQ, 4 bits (GPTQ: or 8): a .safetensors file, a folder of such, or
            its tensors by name. Layers that it has packed are loaded so, every other tensor as it
            is; the arguments above, but for `inplace`, are not for it.
        layout: of the checkpoint: "awq", "gptq" (zero points less one) or "gptq_v2". None: what its
            configuration (config.json, quantize_config.json) says, else "awq" or "gptq" by shapes.

    Raises:
        ValueError: a bad argument, no layer to quantise, rows that `group_size` does not divide,
            a weight with infinities or NaN, or a checkpoint that does not fit; the message names
            it, and `model` is unchanged.
        FileNotFoundError: there is no such checkpoint.
    """
    if checkpoint is not None:
        chosen = {"weights": weights, "group_size": group_size, "symmetric": symmetric,
                  "sparsity": sparsity, "embeddings": embeddings or None,
                  "exclude": exclude or None}
        return _loaded(model, checkpoint, layout, inplace,
                       [name for name, value in chosen.items() if value is not None])
    if layout is not None:
        raise ValueError(f"tv.quantize: layout={layout!r} goes with checkpoint=")
    pruning.check(sparsity)
    only_pruned = sparsity is not None and weights is None
    if only_pruned and (group_size is not None or symmetric is not None or embeddings):
        raise ValueError("tv.quantize: weights=None with sparsity= quantises nothing: leave out "
                         "group_size=, symmetric= and embeddings=, or name a form of weights")
    scheme = _scheme("int8" if weights is None else weights, group_size, symmetric)
    layers = _chosen_layers(model, embeddings, exclude)
    if only_pruned:
        model = model if inplace else _copied(model, layers)
        pruning.prune((name, model.get_submodule(name)) for name in layers)
        return model
    made: dict[int, Quantized] = {}  # a layer that has two names stays one
    for name, layer in layers.items():
        if id(layer) not in made:
            of = f"{name}.weight" if name else "weight"
            made[id(layer)] = scheme.module(of, _sparse(of, layer) if sparsity else layer)
    return _replaced(model, layers, made, inplace)


def _chosen_layers(model, embeddings: bool, exclude: Sequence[str]) -> dict[str, nn.Module]:
    """By name; a layer may have several. Raises ValueError if there are none."""
    patterns = _patterns(exclude)
    if not isinstance(model, nn.Module):
        raise ValueError(f"tv.quantize: got {type(model).__name__}, want a torch.nn.Module")
    layers = {name: module for name, module in model.named_modules(remove_duplicate=False)
              if _is_chosen(module, embeddings) and not any(p.search(name) for p in patterns)}
    if not layers:
        raise ValueError(f"tv.quantize: {type(model).__name__} has no nn.Linear to quantise"
                         + (" but excluded ones" if exclude else ""))
    return layers


def _replaced(model: nn.Module, layers: dict[str, nn.Module], made: dict[int, Quantized],
              inplace: bool) -> nn.Module:
    """The model, or a copy, with `made`, by the layers' ids, in their places."""
    if not inplace:
        made = {key: _own_bias(layer) for key, layer in made.items()}
        model = _copied(model, layers)
    if "" in layers:
        return made[id(layers[""])]
    for name, layer in layers.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, made[id(layer)])
    return _without_fast_paths(model)


def _loaded(model, checkpoint, layout, inplace: bool, unwanted: list[str]) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise ValueError(f"tv.quantize: got {type(model).__name__}, want a torch.nn.Module")
    if unwanted:
        raise ValueError(f"tv.quantize: {unwanted[0]}= says how to quantise; the weights of "
                         "checkpoint= are quantised: leave it out")
    if layout not in (None, *checkpoints.LAYOUTS):
        raise ValueError(f"tv.quantize: layout={layout!r}, want one of {list(checkpoints.LAYOUTS)}")
    with ExitStack() as stack:
        tensors = checkpoints.opened(checkpoint, stack)
        model = model if inplace else copy.deepcopy(model)
        model = checkpoints.load(model, tensors, layout)
    return _without_fast_paths(model)


def _sparse(name: str, layer: nn.Module) -> nn.Module:
    """A linear layer whose weight is pruned; another as it is."""
    if not isinstance(layer, nn.Linear):
        return layer
    sparse = copy.copy(layer)
    sparse._parameters = dict(layer._parameters)
    sparse.weight = nn.Parameter(pruning.pruned(name, layer.weight), requires_grad=False)
    return sparse


def _without_fast_paths(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0  # its fast path takes floating-point weights
    return model


def _is_chosen(module: nn.Module, embeddings: bool) -> bool:
    if embeddings and type(module) is nn.Embedding:
        return module.max_norm is None  # which would change the table
    return type(module) is nn.Linear


def _scheme(weights, group_size, symmetric) -> _Scheme:
    if weights not in (*_INTEGERS, *SCHEMES):
        raise ValueError(f"tv.quantize: weights={weights!r}, want one of "
                         f"{[*_INTEGERS, *SCHEMES]}")
    form = _INTEGERS.get(weights) or SCHEMES[weights].form
    own_size = SCHEMES[weights].group_size if form.format else None
    if own_size and group_size not in (None, own_size):
        raise ValueError(f"tv.quantize: group_size={group_size!r}, but groups of {weights!r} have "
                         f"{own_size} elements: leave it out")
    if group_size is None:
        group_size = GROUP_SIZE if weights == "int4" else own_size
    elif isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 2 or (
            group_size % 2):
        raise ValueError(f"tv.quantize: group_size={group_size!r}, want an even positive number, "
                         "or None")
    if symmetric not in (None, True, False):
        raise ValueError(f"tv.quantize: symmetric={symmetric!r}, want True, False or None")
    if form.format and symmetric is False:
        raise ValueError(f"tv.quantize: symmetric=False, but {weights!r} has no zero points")
    return _Scheme(form, group_size, form.bits == 8 if symmetric is None else bool(symmetric))


def _patterns(exclude) -> list[re.Pattern]:
    if isinstance(exclude, str):
        raise ValueError(f"tv.quantize: exclude={exclude!r}, want a list of regular expressions, "
                         f"[{exclude!r}]")
    try:
        return [re.compile(pattern) for pattern in exclude]
    except (re.error, TypeError) as error:
        raise ValueError(f"tv.quantize: exclude={exclude!r}: {error}") from None


def _own_bias(layer: Quantized) -> Quantized:
    if isinstance(layer, QuantizedLinear):
        layer.bias = copy.deepcopy(layer.bias)
    return layer


def _copied(model: nn.Module, layers: dict[str, nn.Module]) -> nn.Module:
    """A copy that shares with `model` only weights that it is about to lose."""
    uses = Counter(id(p) for module in set(model.modules()) for p in module._parameters.values())
    weights = {id(layer.weight): layer.weight for layer in layers.values()}
    lost = {key: weight for key, weight in weights.items() if uses[key] == sum(
        layer.weight is weight for layer in set(layers.values()))}
    return copy.deepcopy(model, dict(lost))

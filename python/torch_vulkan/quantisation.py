"""tv.quantize: a module whose linear layers hold their weights in 8 or 4 bits."""

import copy
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from ._fx.quantised_scales import check_scale

_BITS = {"int8": 8, "int4": 4}
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
GROUP_SIZE = 32  # of 4-bit weights, where none is given


class _Quantized(nn.Module):
    """A module with a quantised weight.

    Attributes:
        weight: int8 [rows, columns], or uint8 with two 4-bit elements a byte along the columns, the
            first in the low half.
        weight_scale: [rows, groups].
        weight_zero_point: uint8 [rows, groups]; None: 0, and 8 for 4 bits.
    """

    def __init__(self, bits: int, weight, scale, zero_point):
        super().__init__()
        self.bits = bits
        self.register_buffer("weight", weight)
        self.register_buffer("weight_scale", scale)
        self.register_buffer("weight_zero_point", zero_point)

    def _columns(self) -> int:
        return self.weight.shape[1] * 8 // self.bits

    def _weights_repr(self) -> str:
        return f"weights=int{self.bits}, group_size={self._columns() // self.weight_scale.shape[1]}"

    def _load_from_state_dict(self, state_dict, prefix, *args):
        scale = state_dict.get(prefix + "weight_scale")
        if isinstance(scale, torch.Tensor):
            check_scale(prefix + "weight_scale", scale)
        super()._load_from_state_dict(state_dict, prefix, *args)


class QuantizedLinear(_Quantized):
    """`nn.Linear` with a quantised weight [out, in] and the linear layer's own bias; made by
    tv.quantize."""

    def __init__(self, linear: nn.Linear, bits: int, packed):
        super().__init__(bits, *packed)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.ops.torch_vulkan.dequantize(
            self.weight, self.weight_scale, self.weight_zero_point, self.bits, x.dtype)
        return functional.linear(x, weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}, {self._weights_repr()}")


class QuantizedEmbedding(_Quantized):
    """`nn.Embedding` with a quantised table; made by tv.quantize."""

    def __init__(self, embedding: nn.Embedding, bits: int, packed):
        super().__init__(bits, *packed)
        self.num_embeddings, self.embedding_dim = embedding.weight.shape
        self.padding_idx = embedding.padding_idx
        self.dtype = embedding.weight.dtype

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        parts = (self.weight, self.weight_scale, self.weight_zero_point)
        rows = [None if part is None else functional.embedding(indices, part) for part in parts]
        return torch.ops.torch_vulkan.dequantize(*rows, self.bits, self.dtype)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        if self.dtype != torch.float64:
            self.dtype = self.weight_scale.dtype  # .half() and the like
        return self

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self._weights_repr()}"


@dataclass(frozen=True)
class _Scheme:
    """How weights are quantised."""

    bits: int
    group_size: int | None  # None: a row is a group
    symmetric: bool

    def module(self, name: str, module: nn.Module) -> _Quantized:
        kind = QuantizedLinear if isinstance(module, nn.Linear) else QuantizedEmbedding
        packed = self.packed(name, module.weight.detach())
        return kind(module, self.bits, packed).train(module.training)

    def packed(self, name: str, weight: torch.Tensor):
        """(elements, scales, zero points or None) of a matrix."""
        self._check(name, weight)
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
            return pairs[..., 0] | pairs[..., 1] << 4, scale, zero
        return elements.to(torch.int8 if self.symmetric else torch.uint8), scale, zero

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


def quantize(model: nn.Module, weights: str = "int8", *, group_size: int | None = None,
             symmetric: bool | None = None, embeddings: bool = False,
             exclude: Sequence[str] = (), inplace: bool = False) -> nn.Module:
    """Quantises the weights of every `nn.Linear` of a module.

    The result computes in the dtype of its inputs, in eager mode as when compiled; engines read the
    packed weights as they are. docs/low_precision.md.

    Args:
        model: in eval mode or not; nothing is trained. Layers that the module's own code reads as
            tensors (nn.MultiheadAttention's) stay as they are.
        weights: "int8" or "int4".
        group_size: elements of a row that share a scale. None: a row ("int8"), 32 ("int4").
        symmetric: no zero points: scales fit the largest magnitude. None: True for "int8", False
            for "int4".
        embeddings: quantise every `nn.Embedding`, too.
        exclude: regular expressions, searched for in names of layers; these stay floating-point.
        inplace: change `model` itself. Otherwise the result is a copy, and `model` stays as it is.

    Raises:
        ValueError: a bad argument, no layer to quantise, rows that `group_size` does not divide,
            or a weight with infinities or NaN; the message names it, and `model` is unchanged.
    """
    scheme = _scheme(weights, group_size, symmetric)
    patterns = _patterns(exclude)
    if not isinstance(model, nn.Module):
        raise ValueError(f"tv.quantize: got {type(model).__name__}, want a torch.nn.Module")
    layers = {name: module for name, module in model.named_modules(remove_duplicate=False)
              if _is_chosen(module, embeddings) and not any(p.search(name) for p in patterns)}
    if not layers:
        raise ValueError(f"tv.quantize: {type(model).__name__} has no nn.Linear to quantise"
                         + (" but excluded ones" if exclude else ""))
    made: dict[int, _Quantized] = {}  # a layer that has two names stays one
    for name, layer in layers.items():
        if id(layer) not in made:
            made[id(layer)] = scheme.module(f"{name}.weight" if name else "weight", layer)
    if not inplace:
        made = {key: _own_bias(layer) for key, layer in made.items()}
        model = _copied(model, layers)
    if "" in layers:
        return made[id(layers[""])]
    for name, layer in layers.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, made[id(layer)])
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0  # its fast path takes floating-point weights
    return model


def _is_chosen(module: nn.Module, embeddings: bool) -> bool:
    if embeddings and type(module) is nn.Embedding:
        return module.max_norm is None  # which would change the table
    return type(module) is nn.Linear


def _scheme(weights, group_size, symmetric) -> _Scheme:
    if weights not in _BITS:
        raise ValueError(f"tv.quantize: weights={weights!r}, want one of {list(_BITS)}")
    bits = _BITS[weights]
    if group_size is None:
        group_size = None if bits == 8 else GROUP_SIZE
    elif isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 2 or (
            group_size % 2):
        raise ValueError(f"tv.quantize: group_size={group_size!r}, want an even positive number, "
                         "or None")
    if symmetric not in (None, True, False):
        raise ValueError(f"tv.quantize: symmetric={symmetric!r}, want True, False or None")
    return _Scheme(bits, group_size, bits == 8 if symmetric is None else bool(symmetric))


def _patterns(exclude) -> list[re.Pattern]:
    if isinstance(exclude, str):
        raise ValueError(f"tv.quantize: exclude={exclude!r}, want a list of regular expressions, "
                         f"[{exclude!r}]")
    try:
        return [re.compile(pattern) for pattern in exclude]
    except (re.error, TypeError) as error:
        raise ValueError(f"tv.quantize: exclude={exclude!r}: {error}") from None


def _own_bias(layer: _Quantized) -> _Quantized:
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

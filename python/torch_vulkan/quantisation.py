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
from ._torch import dequantize_op

_BITS = {"int8": 8, "int4": 4}
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
GROUP_SIZE = 32  # of 4-bit weights, where none is given


class QuantizedLinear(nn.Module):
    """`nn.Linear` with a quantised weight; made by tv.quantize.

    Attributes:
        weight: int8 [out, in], or uint8 [out, in / 2] with two 4-bit elements a byte, the first in
            the low half.
        weight_scale: [out, groups].
        weight_zero_point: uint8 [out, groups]; None: 0, and 8 for 4 bits.
        bias: the linear layer's own, or None.
    """

    def __init__(self, in_features: int, out_features: int, bits: int):
        super().__init__()
        self.in_features, self.out_features, self.bits = in_features, out_features, bits

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = dequantize_op.dequantize(self.weight, self.weight_scale, self.weight_zero_point,
                                          self.bits, x.dtype)
        return functional.linear(x, weight, self.bias)

    def extra_repr(self) -> str:
        groups = self.weight_scale.shape[-1]
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}, weights=int{self.bits}, "
                f"group_size={self.in_features // groups}")

    def _load_from_state_dict(self, state_dict, prefix, *args):
        scale = state_dict.get(prefix + "weight_scale")
        if isinstance(scale, torch.Tensor):
            check_scale(prefix + "weight_scale", scale)
        super()._load_from_state_dict(state_dict, prefix, *args)


@dataclass(frozen=True)
class _Scheme:
    """How weights are quantised."""

    bits: int
    group_size: int | None  # None: a row is a group
    symmetric: bool

    def linear(self, name: str, linear: nn.Linear) -> QuantizedLinear:
        weight = linear.weight.detach()
        packed, scale, zero = self.packed(name, weight)
        made = QuantizedLinear(linear.in_features, linear.out_features, self.bits)
        made.register_buffer("weight", packed)
        made.register_buffer("weight_scale", scale)
        made.register_buffer("weight_zero_point", zero)
        made.bias = linear.bias
        return made.train(linear.training)

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
            return dequantize_op.bytes_of(elements + 8 * self.symmetric), scale, zero
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
             symmetric: bool | None = None, exclude: Sequence[str] = (),
             inplace: bool = False) -> nn.Module:
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
    linears = {name: module for name, module in model.named_modules(remove_duplicate=False)
               if type(module) is nn.Linear and not any(p.search(name) for p in patterns)}
    if not linears:
        raise ValueError(f"tv.quantize: {type(model).__name__} has no nn.Linear to quantise"
                         + (" but excluded ones" if exclude else ""))
    made: dict[int, QuantizedLinear] = {}  # a layer that has two names stays one
    for name, linear in linears.items():
        if id(linear) not in made:
            made[id(linear)] = scheme.linear(f"{name}.weight" if name else "weight", linear)
    if not inplace:
        made = {key: _own_bias(layer) for key, layer in made.items()}
        model = _copied(model, linears)
    if "" in linears:
        return made[id(linears[""])]
    for name, linear in linears.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, made[id(linear)])
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0  # its fast path takes floating-point weights
    return model


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


def _own_bias(layer: QuantizedLinear) -> QuantizedLinear:
    layer.bias = copy.deepcopy(layer.bias)
    return layer


def _copied(model: nn.Module, linears: dict[str, nn.Linear]) -> nn.Module:
    """A copy that shares with `model` only weights that it is about to lose."""
    uses = Counter(id(p) for module in set(model.modules()) for p in module._parameters.values())
    weights = {id(linear.weight): linear.weight for linear in linears.values()}
    lost = {key: weight for key, weight in weights.items() if uses[key] == sum(
        linear.weight is weight for linear in set(linears.values()))}
    return copy.deepcopy(model, dict(lost))

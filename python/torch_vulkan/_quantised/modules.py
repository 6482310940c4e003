"""Modules with a quantised weight."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from .._fx.quantised_scales import check_scale


@dataclass(frozen=True)
class Form:
    """How a quantised weight is held.

    Attributes:
        name: what tv.quantize calls it.
        bits: of an element, 8 or 4.
        format: the small floating-point numbers that elements are codes of, by torch's name; "":
            they are integers.
        scale_format: of scales; "": they are floats of their dtype.
    """

    name: str
    bits: int
    format: str = ""
    scale_format: str = ""


@dataclass
class Packed:
    """The tensors of a quantised weight, [rows, columns] before it was packed.

    Attributes:
        elements: uint8 (or int8) [rows, columns], or uint8 with two 4-bit elements a byte along
            the columns, the first in the low half.
        scale: [rows, groups].
        zero_point: integers [rows, groups]. None: 0, and 8 for integers of 4 bits.
        tensor_scale: a float32 that multiplies all scales, which are codes.
    """

    elements: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor | None = None
    tensor_scale: torch.Tensor | None = None


class Quantized(nn.Module):
    """A module with a quantised weight.

    Attributes:
        weight, weight_scale, weight_zero_point, weight_tensor_scale: the tensors of a `Packed`.
        weights, bits, format, scale_format: of its `Form`.
    """

    def __init__(self, form: Form, packed: Packed):
        super().__init__()
        # Not the form itself: TorchScript knows no such attributes.
        self.weights, self.bits = form.name, form.bits
        self.format, self.scale_format = form.format, form.scale_format
        self.register_buffer("weight", packed.elements)
        self.register_buffer("weight_scale", packed.scale)
        self.register_buffer("weight_zero_point", packed.zero_point)
        self.register_buffer("weight_tensor_scale", packed.tensor_scale)

    def _dequantized(self, weight, scale, zero_point, dtype: torch.dtype) -> torch.Tensor:
        if not self.format:
            return torch.ops.torch_vulkan.dequantize(weight, scale, zero_point, self.bits,
                                                     dtype)
        return torch.ops.torch_vulkan.dequantize_floats(
            weight, scale, self.weight_tensor_scale, self.format, self.scale_format,
            dtype)

    def _apply(self, fn, recurse=True):
        factor = self.weight_tensor_scale
        super()._apply(fn, recurse)
        if factor is not None and self.weight_tensor_scale.dtype != torch.float32:
            # .half() and the like: float16 would lose its bits.
            self.weight_tensor_scale = factor.to(self.weight_tensor_scale.device)
        return self

    def _columns(self) -> int:
        return self.weight.shape[1] * 8 // self.bits

    def _weights_repr(self) -> str:
        groups = self.weight_scale.shape[1]
        return f"weights={self.weights}, group_size={self._columns() // groups}"

    def _load_from_state_dict(self, state_dict, prefix, *args):
        for name, format in (("weight_scale", self.scale_format), ("weight_tensor_scale", "")):
            scale = state_dict.get(prefix + name)
            if isinstance(scale, torch.Tensor):
                check_scale(prefix + name, scale, format)
        super()._load_from_state_dict(state_dict, prefix, *args)


class QuantizedLinear(Quantized):
    """`nn.Linear` with a quantised weight [out, in] and the linear layer's own bias; made by
    tv.quantize.

    Attributes:
        weight_order: int64 [in], or None: column i of the weight is multiplied by element
            weight_order[i] of the input.
    """

    def __init__(self, linear: nn.Linear, form: Form, packed: Packed,
                 order: torch.Tensor | None = None):
        super().__init__(form, packed)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("weight_order", order)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self._dequantized(self.weight, self.weight_scale, self.weight_zero_point, x.dtype)
        if self.weight_order is not None:
            x = x.index_select(-1, self.weight_order)
        return functional.linear(x, weight, self.bias)

    def extra_repr(self) -> str:
        order = "" if self.weight_order is None else ", in another order"
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}, {self._weights_repr()}{order}")


class QuantizedEmbedding(Quantized):
    """`nn.Embedding` with a quantised table; made by tv.quantize."""

    def __init__(self, embedding: nn.Embedding, form: Form, packed: Packed):
        super().__init__(form, packed)
        self.num_embeddings, self.embedding_dim = embedding.weight.shape
        self.padding_idx = embedding.padding_idx
        self.dtype = embedding.weight.dtype

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        parts = (self.weight, self.weight_scale, self.weight_zero_point)
        rows = [None if part is None else functional.embedding(indices, part) for part in parts]
        return self._dequantized(*rows, self.dtype)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        if self.dtype != torch.float64:
            # .half() and the like; scales that are codes do not change.
            self.dtype = (fn(torch.empty(0, dtype=self.dtype)).dtype if self.scale_format
                          else self.weight_scale.dtype)
        return self

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self._weights_repr()}"

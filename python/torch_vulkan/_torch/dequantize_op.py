"""torch_vulkan::dequantize, the operator that tv.quantize's modules call. It is here for eager and
tracing; engines read the packed tensors themselves."""

import torch

_library = torch.library.Library("torch_vulkan", "FRAGMENT")
_library.define("dequantize(Tensor input, Tensor scale, Tensor? zero_point, int bits, "
                "ScalarType dtype) -> Tensor")


def elements_of(packed: torch.Tensor) -> torch.Tensor:
    """The 4-bit elements of bytes, the first of a byte in its low half."""
    return torch.stack((packed & 15, packed >> 4), -1).flatten(-2)


def bytes_of(elements: torch.Tensor) -> torch.Tensor:
    """The inverse of `elements_of`, of numbers from 0 to 15."""
    pairs = elements.to(torch.uint8).unflatten(-1, (-1, 2))
    return pairs[..., 0] | pairs[..., 1] << 4


def _dequantize(packed, scale, zero_point, bits, dtype):
    elements = (elements_of(packed) if bits == 4 else packed).float()
    groups = elements.unflatten(-1, (scale.shape[-1], -1))
    if zero_point is not None:
        groups = groups - zero_point.float().unsqueeze(-1)
    elif bits == 4:
        groups = groups - 8
    return (groups * scale.float().unsqueeze(-1)).flatten(-2).to(dtype)


def _shape_of(packed, scale, zero_point, bits, dtype):
    *rows, last = packed.shape
    return packed.new_empty((*rows, last * 8 // bits), dtype=dtype)


_library.impl("dequantize", _dequantize, "CompositeExplicitAutograd")
torch.library.register_fake("torch_vulkan::dequantize", _shape_of, lib=_library)
dequantize = torch.ops.torch_vulkan.dequantize.default

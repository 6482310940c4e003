"""Weights as small floating-point numbers: 8 and 4 bits, with scales of floats or of codes."""

from dataclasses import dataclass

import torch

from .modules import Form, Packed

E4M3, E5M2, E2M1, E8M0 = "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float8_e8m0fnu"
_LARGEST = {E4M3: 448.0, E5M2: 57344.0, E2M1: 6.0}
_LARGEST_EXPONENT = {E4M3: 8, E5M2: 15, E2M1: 2}
_LEAST_SCALE = 2.0**-9  # of e4m3
# Halfway between neighbours of E2M1, by the code of the lower one.
_HALFWAY = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])


@dataclass(frozen=True)
class FloatScheme:
    """How weights become small floating-point numbers.

    Attributes:
        form: of the elements and scales.
        group_size: elements of a row with one scale. None: the user's choice, by default a row.
    """

    form: Form
    group_size: int | None = None

    def packed(self, weight: torch.Tensor, group_size: int | None) -> Packed:
        """Of a matrix of finite numbers, whose rows groups of `group_size` (None: a row) divide."""
        groups = weight.float().unflatten(1, (-1, self.group_size or group_size or weight.shape[1]))
        largest = groups.abs().amax(-1)
        scale, factor = self._scales(largest, weight.dtype)
        numbers = groups / _numbers(scale, factor, self.form.scale_format).unsqueeze(-1)
        codes = to_codes(numbers, self.form.format).flatten(1)
        if self.form.bits == 4:
            pairs = codes.unflatten(-1, (-1, 2))
            codes = pairs[..., 0] | pairs[..., 1] << 4
        return Packed(codes, scale, tensor_scale=factor)

    def _scales(self, largest: torch.Tensor, dtype: torch.dtype):
        """(scales as they are held, the factor of all or None)."""
        form = self.form
        if form.scale_format == E8M0:  # OCP Microscaling Formats 1.0, section 6.3
            exponents = torch.frexp(largest).exponent - 1 - _LARGEST_EXPONENT[form.format]
            return (exponents + 127).clamp(0, 254).to(torch.uint8), None
        if form.scale_format == E4M3:
            factor = largest.max() / (_LARGEST[form.format] * _LARGEST[E4M3])
            factor = factor.clamp(min=torch.finfo(torch.float32).tiny)
            scale = (largest / _LARGEST[form.format] / factor).clamp(min=_LEAST_SCALE)
            return to_codes(scale, E4M3), factor
        held = torch.float32 if dtype == torch.float64 else dtype
        scale = (largest / _LARGEST[form.format]).clamp(min=torch.finfo(held).tiny)
        return scale.to(held), None


def _numbers(scale, factor, scale_format: str) -> torch.Tensor:
    if scale_format:
        scale = scale.view(getattr(torch, scale_format))
    scale = scale.float()
    return scale if factor is None else scale * factor


def to_codes(x: torch.Tensor, format: str) -> torch.Tensor:
    """The codes of the nearest numbers, ties to even, uint8; what is beyond becomes the largest."""
    x = x.clamp(-_LARGEST[format], _LARGEST[format])
    if format != E2M1:
        return x.to(getattr(torch, format)).view(torch.uint8)
    size, halfway = x.abs(), _HALFWAY.to(x.device)
    code = torch.zeros_like(x, dtype=torch.uint8)
    for lower, value in enumerate(halfway):
        code += size > value if lower % 2 == 0 else size >= value
    return code | torch.signbit(x).to(torch.uint8) << 3


SCHEMES = {
    "fp8_e4m3": FloatScheme(Form("fp8_e4m3", 8, E4M3)),
    "fp8_e5m2": FloatScheme(Form("fp8_e5m2", 8, E5M2)),
    "mxfp8": FloatScheme(Form("mxfp8", 8, E4M3, E8M0), 32),
    "mxfp4": FloatScheme(Form("mxfp4", 4, E2M1, E8M0), 32),
    "nvfp4": FloatScheme(Form("nvfp4", 4, E2M1, E4M3), 16),
}

"""Other forms of a sample's tensors: the same values in other places of memory, or values that
operators treat apart. Both eager and the compiler are given them."""

import math
import re
from collections.abc import Callable

import torch


def _transposed(t: torch.Tensor) -> torch.Tensor:
    """Dense, with the dimensions the other way around in memory."""
    order = list(range(t.dim()))[::-1]
    return t.permute(order).contiguous().permute(order)


def _offset(t: torch.Tensor) -> torch.Tensor:
    """Every second element of a larger tensor, from the fourth on: rows apart, nothing aligned."""
    if t.dim() == 0 or t.numel() == 0:
        return t
    room = torch.zeros(*t.shape[:-1], 2 * t.shape[-1] + 3, dtype=t.dtype)
    view = room[..., 3::2]
    view.copy_(t)
    return view


def _expanded(t: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Its first element along a dimension for all of them, by a stride of 0."""
    if not t.is_floating_point() or t.dim() == 0 or t.shape[dim] == 0:
        return t
    return t.narrow(dim, 0, 1).expand_as(t)


def _expanded_batch(t: torch.Tensor) -> torch.Tensor:
    """The same of a batch of matrices, which stay as regular as they are."""
    return _expanded(t, 0) if t.dim() > 2 else t


def _channels_last(t: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if t.dim() in formats else t


def _with(*values: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Some elements replaced: the first, the last and every seventh."""
    def replaced(t):
        if not t.is_floating_point() or t.numel() == 0:
            return t
        flat = t.detach().clone().flatten()
        places = sorted({0, flat.numel() - 1, *range(3, flat.numel(), 7)})
        for k, place in enumerate(places):
            flat[place] = values[k % len(values)]
        return flat.reshape(t.shape)
    return replaced


# Zero-size and zero-dimensional tensors are among op_db's own samples.
FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda t: t,
    "transposed": _transposed,
    "offset": _offset,
    "expanded": _expanded,
    "channels_last": _channels_last,
    "infinite": _with(math.inf, -math.inf, math.nan, 0.0, -0.0),
    "denormal": _with(1e-40, -1e-40, 1e-45, -0.0, 2e-38),
}

# Entries that factor or solve: equal columns make a singular matrix, whose pivots are rounding.
MATRICES = r"linalg(?!_(vector_norm|matrix_norm|norm|cross|vecdot|multi_dot|diagonal))" \
           r"|cholesky|^lu|det$|inverse|matrix_exp|^qr|svd|solve"
NO_BATCH = r"tensorsolve|tensorinv"

# docs/accuracy.md, "Infinities and NaN": results are no numbers where eager's are none, which ones
# follows from the order of sums and from products with weights of 0.
WHICH_IS_OPEN = r"fft|stft|instance_norm|native_layer_norm|bilinear2d_aa"
# The same page: of these the first tensor alone has such values, as positions, degrees and weights
# with them are open (tests/converters/test_convolution_infinite.py holds what weights promise).
# PyTorch's polynomials of NaN are what was in memory; infinity is 0 as a byte by its AVX2, 255 by
# its AVX-512.
FIRST_ALONE = {r"grid_sampl|functional_conv": FORMS["infinite"],
               r"^byte$": _with(0.0, -0.0),
               r"polynomial": _with(math.inf, -math.inf, 0.0, -0.0)}
# What LAPACKs leave behind a pivot that is not positive differs; an inverse's sums pass the type's
# range where a pivot is denormal.
NOT_COMPARED = {"infinite": r"linalg_cholesky_ex",
                "denormal": r"linalg_cholesky_ex|cholesky_inverse"}
# MKL ends the process.
NOT_EVEN_EAGER = r"linalg_eigvals$"


def takes_part(form: str, entry: str) -> bool:
    """Whether an entry's results in a form are compared."""
    return form not in NOT_COMPARED or not re.search(NOT_COMPARED[form], entry)


def can_run(form: str, entry: str) -> bool:
    """Whether eager takes an entry in a form."""
    return form != "infinite" or not re.search(NOT_EVEN_EAGER, entry)


def transformed(entry: str, sample) -> list[int]:
    """The dimensions of a Fourier transform's result along which every element is a sum of all
    others' arguments; none of what is no transform."""
    if entry == "stft":  # frequencies, and the two parts of a complex number
        batches = sample.input.dim() - 1
        return [batches] if sample.kwargs["return_complex"] else [batches, batches + 2]
    if not entry.startswith("fft_") or "shift" in entry:
        return []
    assert not sample.args, "sizes and dimensions are expected by name"
    dims, sizes = sample.kwargs.get("dim"), sample.kwargs.get("s")
    if dims is not None:
        return [dims] if isinstance(dims, int) else list(dims)
    if entry.endswith("n"):
        return list(range(-(len(sizes) if sizes else sample.input.dim()), 0))
    return [-2, -1] if entry.endswith("2") else [-1]


def unnamed(form: str, entry: str, actual: list[torch.Tensor], expected: list[torch.Tensor],
            lines: list[int]):
    """Both results with NaN for what is no number, where it is open which of the three they hold;
    of Fourier transforms also where eager's is a number, beside others of its line, along one of
    the dimensions `lines`, that are none: its factor is 0 there, and eager's algorithm leaves some
    of these products out."""
    if form != "infinite" or not re.search(WHICH_IS_OPEN, entry):
        return actual, expected
    return ([_with_nan(a, ~a.isfinite()) for a in actual],
            [_with_nan(e, ~e.isfinite() | _beside_none(a, e, lines))
             for a, e in zip(actual, expected, strict=True)])


def _with_nan(t: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return torch.where(places, math.nan, t) if t.is_floating_point() or t.is_complex() else t


def _beside_none(actual: torch.Tensor, expected: torch.Tensor, lines: list[int]) -> torch.Tensor:
    none = torch.zeros_like(expected, dtype=torch.bool)
    if actual.shape != expected.shape:
        return none
    for dim in lines:
        if dim < expected.dim():  # stft's gradient has no parts
            none |= (~expected.isfinite()).any(dim, keepdim=True)
    return none & ~actual.isfinite()


def flushed(t: torch.Tensor) -> torch.Tensor:
    """With 0 for denormals, as some devices read them."""
    if t.dtype not in (torch.float32, torch.bfloat16):
        return t
    return torch.where(t.abs() < 2.0**-126, t * 0, t)


def either(actual: torch.Tensor, expected: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`other` where results are near to that alone."""
    same = all(getattr(actual, k) == getattr(expected, k) for k in ("shape", "dtype", "layout"))
    if not same or actual.layout != torch.strided:
        return expected
    if expected.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return expected  # PyTorch 2.11 has no `where` of them
    near = (actual == expected) | (actual != actual) & (expected != expected)
    if actual.is_floating_point():
        near |= torch.isclose(actual, expected, 1e-4, 1e-5)
    return torch.where(near, expected, other)


def in_form(form: str, entry: str, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """An entry's tensors in one of FORMS, those that are not dense as they are."""
    change, others = FORMS[form], FORMS[form]
    if form == "expanded" and re.search(MATRICES, entry):
        change = others = FORMS["plain"] if re.search(NO_BATCH, entry) else _expanded_batch
    for pattern, of_first in FIRST_ALONE.items() if form == "infinite" else ():
        if re.search(pattern, entry):
            change, others = of_first, FORMS["plain"]
    return [t if t.layout != torch.strided or t.is_nested or t.is_quantized
            else others(t) if i else change(t) for i, t in enumerate(tensors)]

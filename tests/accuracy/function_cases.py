"""How each row of the pointwise table is called from torch, and where its error is measured.

The errors themselves stand with the rows (csrc/codegen/pointwise_table.cpp and
converters/pointwise/pointwise_unary.cpp, which says of its own where they are measured): "n" ULP of
the result, or "n of …", units in the last place of what `scale` gives where that is larger.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

import torch_vulkan as tv
from torch_vulkan import _C

aten, special = torch.ops.aten, torch.special


@dataclass
class Case:
    """`function` of as many tensors as `domains` names."""

    function: Callable
    domains: tuple[str, ...] = ("every",)
    scale: Callable | None = None


def _every() -> torch.Tensor:
    """Finite floats of every size, and many near 0."""
    bits = torch.arange(0, 1 << 32, 1 << 20, dtype=torch.int64) + 104729
    every = bits.to(torch.int32).view(torch.float32)
    near = torch.linspace(-1, 1, 2003)
    return torch.cat([every[every.isfinite()], near, near * 90])


def _sizes(low: float, high: float) -> torch.Tensor:
    return torch.logspace(math.log10(low), math.log10(high), 6007, dtype=torch.float64).float()


DOMAINS = {
    "every": _every,
    "positive": lambda: _every().abs().clamp(min=2.0**-126),
    "large_range": lambda: torch.cat([_sizes(1e-15, 1e15), -_sizes(1e-15, 1e15)]),
    "moderate": lambda: torch.cat([torch.linspace(-30, 30, 8009), _sizes(1e-6, 30)]),
    "bessel": lambda: torch.cat([torch.linspace(0.01, 60, 8009), _sizes(1e-4, 1e3)]),
    "gamma": lambda: torch.cat([torch.linspace(0.01, 40, 8009), _sizes(1e-4, 1e4)]),
    "shapes": lambda: torch.linspace(0.1, 20, 4001),
    "above_1": lambda: torch.cat([torch.linspace(1.01, 12, 4001)]),
    "unit": lambda: torch.cat([torch.linspace(0.001, 0.999, 8009)]),
    "both_units": lambda: torch.linspace(-0.999, 0.999, 8009),
    "degrees": lambda: torch.arange(8009) % 9 * 1.0,
    "exponents": lambda: torch.arange(8009) % 60 - 30.0,
}


# The same in words.
RANGES = {
    "every": "every finite x", "positive": "every finite x > 0",
    "large_range": "10⁻¹⁵ ≤ |x| ≤ 10¹⁵", "moderate": "|x| ≤ 30", "bessel": "10⁻⁴ ≤ x ≤ 1000",
    "gamma": "10⁻⁴ ≤ x ≤ 10⁴", "above_1": "1 < x ≤ 12", "shapes": "0.1 ≤ x ≤ 20",
    "unit": "0 < x < 1", "both_units": "|x| < 1", "degrees": "n = 0 … 8",
    "exponents": "whole, |n| ≤ 30",
}


def _largest(*tensors):
    """The largest of the arguments, element by element."""
    found = tensors[0].abs()
    for tensor in tensors[1:]:
        found = torch.maximum(found, tensor.abs())
    return found


def _one(*tensors):
    return torch.ones_like(tensors[0])


def _first(*tensors):
    return tensors[0].abs()


def _tiny(x):
    return torch.full_like(x, 2.0**-100)


def _amplitude(x):
    return (2 / (math.pi * x.abs())).sqrt()


def _airy_amplitude(x):
    a = x.abs().clamp(min=1)
    size = a ** 1.25 / math.sqrt(math.pi)  # |x|^-0.25 |x|^1.5
    return torch.where(x < 0, size, size / 2 * torch.exp(-2 / 3 * a**1.5))


def _terms(kind: str) -> Callable:
    """The sum of the sizes of a polynomial's terms, by its recurrence without signs."""
    def scale(x, n):
        x = (2 * x - 1).abs() if kind.startswith("shifted") else x.abs()
        name = kind.removeprefix("shifted_")
        before, value = torch.zeros_like(x), torch.ones_like(x)
        result = value.clone()
        for k in range(1, 9):
            grown = {"hermite_polynomial_h": 2 * x * value + 2 * (k - 1) * before,
                     "hermite_polynomial_he": x * value + (k - 1) * before,
                     "laguerre_polynomial_l": ((2 * k - 1 + x) * value + (k - 1) * before) / k,
                     "legendre_polynomial_p": ((2 * k - 1) * x * value + (k - 1) * before) / k,
                     }.get(name, 2 * x * value + before)
            before, value = value, grown
            result = torch.where(n >= k, value, result)
        return result
    return scale


TWO, THREE = ("large_range",) * 2, ("large_range",) * 3
GRADIENT = ("both_units", "moderate")


def _of_one_tensor() -> dict[str, Case]:
    """Rows that say themselves where they are measured: operators of one tensor
    (converters/pointwise/pointwise_unary.cpp)."""
    ops = {}
    for info in tv.supported_ops():
        if info["kind"] == "pointwise":
            ops.setdefault(info["function"], info["op"])
            if info["op"] == f"aten::{info['function']}":
                ops[info["function"]] = info["op"]
    scales = {"1": _one, "x": _first}
    cases = {}
    for row, domain in _C.pointwise_domains().items():
        scale = _C.pointwise_errors()[row].partition(" of ")[2]
        name = ops[row].removeprefix("aten::")
        cases[row] = Case(getattr(aten, name).default, (domain,), scales[scale] if scale else None)
    return cases


def _specials(domain: str, scale=None, **names: str) -> dict[str, Case]:
    return {row: Case(getattr(special, name), (domain,), scale) for row, name in names.items()}


def _polynomials() -> dict[str, Case]:
    found = {}
    for kind in ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
                 "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
                 "laguerre_polynomial_l", "legendre_polynomial_p"):
        found[kind] = Case(getattr(special, kind), ("both_units", "degrees"), _terms(kind))
        if kind.startswith("chebyshev"):
            shifted = "shifted_" + kind
            found[shifted] = Case(getattr(special, shifted), ("unit", "degrees"), _terms(shifted))
    return found


FUNCTIONS: dict[str, Case] = {
    **_of_one_tensor(),
    "add": Case(torch.add, TWO), "sub": Case(torch.sub, TWO), "mul": Case(torch.mul, TWO),
    "rsub": Case(torch.rsub, TWO), "div": Case(torch.div, ("every", "every")),
    "add_scaled": Case(lambda x, y: torch.add(x, y, alpha=0.5), TWO, _largest),
    "sub_scaled": Case(lambda x, y: torch.sub(x, y, alpha=0.5), TWO, _largest),
    "rsub_scaled": Case(lambda x, y: torch.rsub(x, y, alpha=0.5), TWO, _largest),
    "lerp": Case(lambda x, y: torch.lerp(x, y, 0.25), TWO, _largest),
    "addcmul": Case(lambda x, y, z: torch.addcmul(x, y, z, value=0.5), THREE,
                    lambda x, y, z: _largest(x, y * z)),
    "addcdiv": Case(lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), THREE,
                    lambda x, y, z: _largest(x, y / z)),
    "mask_scale": Case(lambda x: aten.native_dropout_backward(x, x > 0, 1.5)),
    "round_decimals": Case(lambda x: torch.round(x, decimals=2), ("moderate",)),
    "atan2": Case(torch.atan2, ("every", "every")),
    "pow": Case(torch.pow, ("positive", "moderate")),
    "rpow": Case(lambda x: torch.pow(1.75, x), ("moderate",)),
    "cube": Case(lambda x: x**3), "inverse_square": Case(lambda x: x**-2),
    "hypot": Case(torch.hypot, ("every", "every")),
    "logaddexp": Case(torch.logaddexp, ("moderate", "moderate"), _one),
    "xlogy": Case(torch.xlogy, ("large_range", "positive")),
    "rxlogy": Case(lambda x: torch.xlogy(0.75, x), ("positive",)),
    "logit": Case(torch.logit, ("unit",), _one),
    "logit_eps": Case(lambda x: torch.logit(x, 0.25), ("unit",), _one),
    "lgamma": Case(torch.lgamma, ("gamma",), _one),
    "digamma": Case(torch.digamma, ("gamma",), _one),
    "trigamma": Case(lambda x: torch.polygamma(1, x), ("gamma",)),
    "polygamma": Case(lambda x: torch.polygamma(3, x), ("gamma",)),
    "zeta": Case(special.zeta, ("above_1", "above_1")),
    "rzeta": Case(lambda x: special.zeta(2.5, x), ("above_1",)),
    "igamma": Case(torch.igamma, ("shapes", "shapes"), _one),
    "igammac": Case(torch.igammac, ("shapes", "shapes"), _one),
    "_standard_gamma_grad": Case(torch._standard_gamma_grad, ("shapes", "shapes")),
    "ndtri": Case(special.ndtri, ("unit",), _one),
    **_specials("gamma", erfcx="erfcx"),
    **_specials("moderate", i0="i0", i0e="i0e", i1="i1", i1e="i1e",
                spherical_bessel_j0="spherical_bessel_j0"),
    **_specials("bessel", k0="modified_bessel_k0", k1="modified_bessel_k1",
                k0e="scaled_modified_bessel_k0", k1e="scaled_modified_bessel_k1"),
    **_specials("bessel", _amplitude, bessel_j0="bessel_j0", bessel_j1="bessel_j1",
                bessel_y0="bessel_y0", bessel_y1="bessel_y1"),
    **_specials("moderate", _airy_amplitude, airy_ai="airy_ai"),
    **_polynomials(),
    "ldexp": Case(torch.ldexp, ("moderate", "exponents")),
    "linspace": Case(lambda x: torch.linspace(-3, 11, x.numel(), dtype=x.dtype) + 0 * x,
                     ("unit",), lambda x: torch.full_like(x, 11)),
    "silu": Case(F.silu, scale=_tiny), "mish": Case(F.mish, scale=_tiny),
    "log_sigmoid_buffer": Case(lambda x: aten.log_sigmoid_forward(x)[0], ("moderate",)),
    "gelu": Case(F.gelu, ("moderate",), _first),
    "gelu_tanh": Case(lambda x: F.gelu(x, approximate="tanh"), ("moderate",), _first),
    "hardswish": Case(F.hardswish, ("moderate",)),
    "hardsigmoid": Case(F.hardsigmoid, ("moderate",)),
    "elu": Case(lambda x: F.elu(x, 0.7)), "celu": Case(lambda x: F.celu(x, 1.3)),
    "leaky_relu": Case(lambda x: F.leaky_relu(x, 0.25)),
    "softplus": Case(lambda x: F.softplus(x, 2.0), ("moderate",)),
    "sigmoid_backward": Case(aten.sigmoid_backward, ("moderate", "both_units")),
    "tanh_backward": Case(aten.tanh_backward, ("moderate", "both_units"), _first),
    "silu_backward": Case(aten.silu_backward, GRADIENT, _first),
    "mish_backward": Case(aten.mish_backward, GRADIENT, _first),
    "gelu_backward": Case(aten.gelu_backward, GRADIENT, _first),
    "gelu_tanh_backward": Case(lambda g, x: aten.gelu_backward(g, x, approximate="tanh"), GRADIENT,
                               _first),
    "hardswish_backward": Case(aten.hardswish_backward, GRADIENT, _first),
    "hardsigmoid_backward": Case(aten.hardsigmoid_backward, GRADIENT),
    "leaky_relu_backward": Case(lambda g, x: aten.leaky_relu_backward(g, x, 0.25, False), GRADIENT),
    "elu_backward": Case(lambda g, x: aten.elu_backward(g, 0.75, 1.0, 1.0, False, x), GRADIENT),
    "elu_backward_result": Case(lambda g, x: aten.elu_backward(g, 1.0, 1.0, 1.0, True, x),
                                ("moderate", "both_units")),
    "softplus_backward": Case(lambda g, x: aten.softplus_backward(g, x, 2.0, 20.0), GRADIENT),
    "log_sigmoid_backward": Case(
        lambda g, x: aten.log_sigmoid_backward(g, x, torch.exp(-x.abs())), GRADIENT),
    "prelu": Case(lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype))),
    "prelu_backward": Case(
        lambda g, x: aten._prelu_kernel_backward(g, x, torch.full_like(x, 0.25))[0], GRADIENT),
    "prelu_backward_weight": Case(
        lambda g, x: aten._prelu_kernel_backward(g, x, torch.full_like(x, 0.25))[1], GRADIENT),
}


def arguments(case: Case) -> list[torch.Tensor]:
    """Tensors of one length; those of the same domain in other orders."""
    found = []
    for k, name in enumerate(case.domains):
        values = DOMAINS[name]()
        if k:
            generator = torch.Generator().manual_seed(k)
            values = values[torch.randint(len(values), (len(found[0]),), generator=generator)]
        found.append(values)
    return found


# Rows that take denormal arguments for what they are on every device (docs/accuracy.md).
RIGHT_FOR_DENORMALS = {"div", "reciprocal", "sqrt", "rsqrt", "log", "log2", "log10", "erf", "atan2"}


def readings(row: str, args, flushes: bool) -> list[list[torch.Tensor]]:
    """The arguments in float64, and once more with 0 for denormals where the device may do so."""
    doubles = [a.double() for a in args]
    if not flushes or row in RIGHT_FOR_DENORMALS:
        return [doubles]
    flushed = [torch.where(d.abs() < 2.0**-126, d * 0, d) for d in doubles]
    return [doubles, flushed]


def least_error(row: str, args, flushes: bool, error) -> torch.Tensor:
    """The smallest, element by element, of `error(exact, doubles)` over what may be read."""
    found = None
    for doubles in readings(row, args, flushes):
        here = error(FUNCTIONS[row].function(*doubles), doubles).nan_to_num(torch.inf)
        found = here if found is None else torch.minimum(found, here)
    return found


def errors(result, exact, scale=None) -> torch.Tensor:
    """In units of the last place of the exact results, or of `scale` where that is larger; 0 where
    the exact ones leave float32. Denormal ones may be 0."""
    size = exact.abs()
    if scale is not None:
        size = torch.maximum(size, scale)
    in_range = exact.isfinite() & (exact.abs() < 3.4028e38) & size.isfinite()
    _, exponent = torch.frexp(size.clamp(min=2.0**-126))
    unit = torch.ldexp(torch.ones_like(size), exponent - 24)
    return torch.where(in_range, _beyond_denormals(result, exact, 2.0**-126) / unit, 0.0)


def errors_of_16_bits(result, exact) -> torch.Tensor:
    """The same in units of the last place of the results' own type."""
    info = torch.finfo(result.dtype)
    size = exact.abs()
    _, exponent = torch.frexp(size.clamp(min=info.tiny))
    unit = torch.ldexp(torch.ones_like(size), exponent) * info.eps / 2
    off = _beyond_denormals(result, exact, info.tiny) / unit
    return torch.where(exact.isfinite() & (size <= info.max), off, 0.0)


def _beyond_denormals(result, exact, smallest: float) -> torch.Tensor:
    """How far results are off; from denormal ones only what is more than the smallest normal."""
    off = (result.double() - exact).abs()
    return torch.where(exact.abs() < smallest, (off - smallest).clamp(min=0), off)

"""Zeros of both signs, infinities, NaN and the ends of dtypes through every operator of the
pointwise table: each result is what eager's is, with its sign (docs/accuracy.md)."""

import math

import pytest
import torch

from special_values import arguments, compiled, differences, eager, given, pointwise_calls

PER_GRAPH = 24
# The ones that a sign of zero has been wrong in, and what networks are made of.
COMMON = ("sign", "sgn", "softshrink", "relu", "relu6", "tanh", "clamp", "clamp_min", "clamp_max", "leaky_relu",
          "hardtanh", "threshold", "maximum", "minimum", "copysign", "fmod", "remainder", "floor_divide",
          "floor", "ceil", "round", "trunc", "neg", "abs", "lgamma", "special_i1", "special_zeta")

LARGEST = torch.finfo(torch.float32).max


def overflows(*sizes):
    return any(LARGEST * 0.99 < abs(s) for s in sizes)


# Where results may be other than eager's, by operator, and why.
EXCEPTIONS = {
    # alpha * other is rounded, and may overflow, where eager's CPU code adds without rounding it.
    "add.Tensor": overflows, "sub.Tensor": overflows, "rsub.Tensor": overflows,
    # The same of weight * (end - self), which may be below the denormals.
    "lerp.Scalar": lambda *v: any(0 < abs(x) < 1e-37 for x in v),
    # 0 and 1 in the limit, where eager's CPU code gives NaN; of denormal shapes 1, where that gives 0.
    "igamma": lambda a, x: overflows(a) or 0 < a < 1e-37,
    "igammac": overflows,
    # The derivative where eager's terms cancel or its powers underflow; shapes below 0 are none.
    "_standard_gamma_grad": lambda a, x: x < 0.8 and not 1e-37 < a < 8,
    "special_zeta": overflows, "special_zeta.other_scalar": overflows,
    # Nothing is promised outside of arguments that are tested.
    "special_bessel_j1": overflows,
    # Computed from self; torch's CPU kernel reads its own forward's buffer.
    "log_sigmoid_backward": lambda grad, x, buffer: True,
    # Infinite at the poles.
    "polygamma": lambda x: x < 0,
}

# The same of 16 bits, where eager's CPU code rounds, flushes or chooses in between.
EXCEPTIONS_OF_16_BITS = {
    # Its 2^other overflows, or is 0.
    "ldexp.Tensor": lambda x, n: abs(n) > 14,
    # Its grad * (1 - output) overflows.
    "sigmoid_backward": lambda grad, output: abs(grad) > 2**15,
    "erf": lambda x: 0 < abs(x) < 1e-37,
    # Of two zeros it takes the other, which IEEE 754 leaves open.
    "fmax": lambda a, b: a == b == 0,
    "fmin": lambda a, b: a == b == 0,
}


def excepted(call, values, dtype):
    if "polynomial" in call.op._schema.name and any(math.isnan(v) for v in values):
        return True  # eager returns what was never written
    name = str(call.op).removeprefix("aten.").removesuffix(".default")
    known = [EXCEPTIONS] + [EXCEPTIONS_OF_16_BITS] * (dtype.itemsize == 2)
    return any(name in some and some[name](*values) for some in known)


def calls_for(dtype, common):
    without = {torch.ops.aten.positive.default}  # a view
    if dtype.itemsize == 2:
        without.add(torch.ops.aten.nextafter.default)  # native: kernels step by float32's bits
    found = [c for c in pointwise_calls() if c.op not in without]
    names = [str(c.op).split(".")[1] for c in found]
    found = [c for c, name in zip(found, names, strict=True) if not common or name in COMMON]
    return [c for c in found if eager(c, given(c, arguments(len(c.tensors), dtype))) is not None]


def check(calls, dtype):
    wrong = []
    for at in range(0, len(calls), PER_GRAPH):
        part = calls[at:at + PER_GRAPH]
        for call, got in zip(part, compiled(part, dtype), strict=True):
            found = [d for d in differences(call, got, dtype) if not excepted(call, d[0], dtype)]
            wrong += [f"{call} of {v}: {g}, eager {w}" for v, g, w, _ in found[:3]]
    assert not wrong, "\n".join(wrong)


def test_common_operators():
    """One form of each."""
    calls = {str(c.op): c for c in calls_for(torch.float32, common=True)}
    assert len(calls) > 30
    check([*calls.values()], torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_operator(dtype):
    check(calls_for(dtype, common=False), dtype)

"""Pointwise operators against eager: values over the whole range, dtypes, promotion, views."""

import math

import pytest
import torch
import torch.nn.functional as F

import torch_vulkan as tv

from marks import slow_but, turns
from parity import FLOATS, INTS, check, check_gradients, tensor

aten = torch.ops.aten
INF, NAN = math.inf, math.nan

SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-3, -1e-3, 1e-20, -1e-20, 3.0, -3.0,
                        10.0, -10.0, 30.0, -30.0, 88.5, -88.5, 104.0, -104.0, 1e4, -1e4, 1e8, -1e8,
                        1e20, -1e20, 3e38, -3e38, INF, -INF, NAN, 2.5, 3.5, -2.5, 1.5])


def spread(count=3000):
    """Floats of every size and both signs, with the special ones."""
    exponents = torch.linspace(-30, 30, count)
    return torch.cat([SPECIAL, torch.exp(exponents), -torch.exp(exponents), tensor(count) * 3])


UNARY = ["neg", "abs", "sign", "sgn", "square", "floor", "ceil", "trunc", "round", "frac", "isnan", "isinf",
         "isfinite", "signbit", "logical_not", "reciprocal", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log",
         "log2", "log10", "log1p", "sin", "cos", "tanh", "asin", "acos", "atan", "asinh",
         "acosh", "atanh", "erf", "erfc", "erfinv", "sigmoid"]


def by_name(names):
    """Groups of eight: one engine each, which is what costs time here."""
    return [names[k:k + 8] for k in range(0, len(names), 8)]


@pytest.mark.parametrize("names", by_name(UNARY), ids="-".join)
def test_unary(names):
    check(lambda x: [getattr(torch, n)(x) for n in names], spread())


def test_unary_near_overflow_and_poles():
    # Eager's float32 forms are off there, or overflow too early: compare with float64.
    check(lambda x: (torch.tan(x), torch.sinh(x), torch.cosh(x)), spread(), double=True)


def of_one_tensor():
    """Operators of one tensor and nothing else, as the registry has them: a new row is among them."""
    names = [info["op"].removeprefix("aten::") for info in tv.supported_ops()
             if info["kind"] == "pointwise" and info["op"].startswith("aten::")]
    operators = [getattr(aten, name).default for name in names if "." not in name]
    return [op for op in operators if len(op._schema.arguments) == 1
            and len(op._schema.returns) == 1 and op is not aten.positive.default]


def names_of(part):
    return "-".join(str(op).split(".")[1] for op in of_one_tensor()[part::16])


@pytest.mark.parametrize("part", slow_but((0,), range(16)), ids=names_of)
def test_forms_of_operators_of_one_tensor(part):
    """Views, no elements, sizes that change, and the type that integers are computed in."""
    operators = of_one_tensor()[part::16]
    assert len(operators) > 3
    def takes(op, x):
        try:
            return op(x) is not None
        except (RuntimeError, NotImplementedError):
            return False

    x = (tensor(11, 14)[:, ::2] / 4).t()
    of_floats = [op for op in operators if takes(op, x)]
    check(lambda x: [op(x) for op in of_floats], x, more=[(tensor(0, 5),)], dynamic=True, double=True)
    x = tensor(37, dtype=torch.int32, low=-3, high=4)
    of_integers = [op for op in operators if takes(op, x)]
    check(lambda x: [op(x) for op in of_integers], x)


INT_UNARY = ["neg", "abs", "sign", "square", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite",
             "signbit", "logical_not", "bitwise_not", "exp", "sqrt", "sigmoid", "reciprocal"]


@pytest.mark.parametrize("dtype", INTS)
def test_unary_of_integers(dtype):
    names = [n for n in INT_UNARY if n != "neg" or dtype != torch.uint8]
    check(lambda x: [getattr(torch, n)(x) for n in names], tensor(37, dtype=dtype, low=-100, high=100))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_unary_of_half(dtype):
    x = tensor(37, 41, dtype=dtype)
    check(lambda x: (torch.exp(x), torch.tanh(x), torch.sqrt(x), F.gelu(x), F.silu(x), torch.sin(x)), x)


def test_half_stores_round_to_nearest_even():
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.float16).float()
    between = (every + torch.roll(every, -1)) / 2
    x = torch.cat([every, between, torch.nextafter(between, every), every * 1.0005])
    check(lambda x: (x.half(), x.bfloat16(), x.half().float()), x)


ACTIVATIONS = [
    F.relu, F.relu6, F.hardtanh, F.hardswish, F.hardsigmoid, F.silu, F.mish, F.elu, F.celu, F.selu,
    F.leaky_relu, F.softplus, F.softsign, F.tanhshrink, F.softshrink, F.hardshrink, F.logsigmoid, F.gelu,
    lambda x: F.gelu(x, approximate="tanh"), lambda x: F.elu(x, 0.7), lambda x: F.celu(x, 1.3),
    lambda x: F.leaky_relu(x, 0.2), lambda x: F.softplus(x, 2.0, 10.0), lambda x: F.threshold(x, 0.3, -7.0),
    lambda x: F.hardtanh(x, -0.3, 0.9), lambda x: torch.logit(x, 0.1), lambda x: torch.nan_to_num(x, 3.0),
    lambda x: F.softshrink(x, 0.8), lambda x: F.hardshrink(x, 0.8),
]


@pytest.mark.parametrize("k", range(0, len(ACTIVATIONS), 8))
def test_activations(k):
    x = torch.cat([tensor(113, 7).flatten() * 3, torch.tensor([0.0, -0.0, 40.0, -40.0])])
    check(lambda x: [f(x) for f in ACTIVATIONS[k:k + 8]], x)


@turns(2)
@pytest.mark.parametrize("k", range(0, len(ACTIVATIONS), 8))
def test_activation_gradients(k):
    check_gradients(lambda x: [f(x) for f in ACTIVATIONS[k:k + 8]], tensor(11, 37) * 3)


def test_gradients_of_arithmetic():
    check_gradients(lambda a, b: a * b + a / (b * b + 1) - torch.sqrt(a * a + 1) ** 3 + torch.rsqrt(b * b + 2),
                    tensor(7, 11), tensor(11, seed=1))
    check_gradients(lambda a: torch.tanh(a) * torch.sigmoid(a) + torch.exp(-a) + torch.where(a > 0, a, a * 2),
                    tensor(7, 11))
    check_gradients(lambda a, w: F.prelu(a, w), tensor(3, 5, 7), tensor(5, seed=1))
    check_gradients(lambda a, b: torch.maximum(a, b) + torch.clamp(a, -0.5, 0.5), tensor(7, 11),
                    tensor(7, 11, seed=1))


BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "pow", "eq", "ne",
          "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "copysign", "xlogy", "logaddexp",
          "true_divide"]


def pairs():
    a, b = torch.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    return torch.cat([a.flatten(), tensor(2000) * 3]), torch.cat([b.flatten(), tensor(2000, seed=1) * 3])


@pytest.mark.parametrize("names", by_name(BINARY), ids="-".join)
def test_binary(names):
    check(lambda a, b: [getattr(torch, n)(a, b) for n in names], *pairs())


def test_remainders():
    # Exact here; eager's float32 forms give NaN where the quotient is large.
    check(lambda a, b: (torch.fmod(a, b), torch.remainder(a, b)), *pairs(), double=True)
    a, b = tensor(2000) * 300, tensor(2000, seed=1) * 3
    a[:6], b[:6] = torch.tensor([0.0, 1, -1, INF, NAN, 5]), torch.tensor([2.0, 0, 0, 2, 2, INF])
    check(lambda a, b: (torch.floor_divide(a, b), torch.div(a, b, rounding_mode="trunc"), a // 0.3), a, b)


@pytest.mark.parametrize("dtype", INTS + (torch.int16,))
def test_common_divisors_and_multiples(dtype):
    """Fibonacci's numbers take Euclid's algorithm the most steps; multiples wrap."""
    def both(a, b):
        return torch.gcd(a, b), torch.lcm(a, b)

    small = torch.arange(-12 if dtype != torch.uint8 else 0, 13).to(dtype)
    check(both, small[:, None], small)
    found = [1, 1]
    while (following := found[-1] + found[-2]) <= torch.iinfo(dtype).max:
        found.append(following)
    fibonacci = torch.tensor(found, dtype=dtype)
    check(both, fibonacci, torch.cat([fibonacci[1:], fibonacci[:1]]))
    check(both, tensor(29, 31, dtype=dtype, low=-120, high=120), tensor(31, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_divisors_of_the_least_integer(dtype):
    """Are positive (docs/accuracy.md), eager's are so but for their sign; multiples are eager's."""
    least = torch.iinfo(dtype).min
    others = torch.arange(least, least + 256).to(dtype)
    given = torch.full_like(others, least), others
    wanted = [math.gcd(least, other) for other in others.tolist()]
    divisors = torch.compile(torch.gcd, backend="vulkan", options={"min_block_size": 1})(*given)
    assert torch.equal(divisors, torch.tensor(wanted).to(dtype))
    assert torch.equal(divisors.abs(), torch.gcd(*given).abs())
    check(lambda a, b: (torch.gcd(a, b).abs(), torch.lcm(a, b)), *given)


@pytest.mark.parametrize("dtype", INTS)
def test_binary_of_integers(dtype):
    a, b = tensor(500, dtype=dtype, low=-100, high=100), tensor(500, dtype=dtype, low=1, high=9, seed=1)
    b = torch.where(tensor(500, dtype=torch.bool, seed=3), b, (-b).to(dtype)) if dtype != torch.uint8 else b
    names = ["add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "floor_divide", "eq",
             "lt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and"]
    check(lambda a, b: [getattr(torch, n)(a, b) for n in names]
          + [torch.div(a, b, rounding_mode="trunc"), torch.div(a, b, rounding_mode="floor"),
             a * 7 + 3, a // 3, a % 5, 5 - a, a ** 2, a ** 3], a, b)


@pytest.mark.parametrize("dtype", INTS)
def test_integers_wrap_and_shift(dtype):
    a = tensor(64, dtype=dtype, low=-128, high=127)
    n = torch.arange(64, dtype=dtype) % (torch.iinfo(dtype).bits - 1)
    check(lambda a, n: (a << n, a >> n, a << 3, a >> 2, a * a * a, a ** 5), a, n)


def test_bools():
    a, b = tensor(37, dtype=torch.bool), tensor(37, dtype=torch.bool, seed=1)
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a == b, a != b, a < b, a <= b, a > b, a >= b, a + b, a * b,
                        a.float(), a.long() + b, torch.where(a, b, ~b), a.int() - 1, a * 2.5, a + 1), a, b)


def test_bools_as_integers():
    """Compared and shifted as int64, to which a number promotes them."""
    check(lambda b, x: (b > 2, b > 0, b < 1, b >= 2, b <= 0, b == 1, b > x,
                        torch.bitwise_left_shift(x, b), torch.bitwise_right_shift(x, b),
                        b.maximum(x), b + 2),
          tensor(3, 7, dtype=torch.bool), tensor(3, 7, dtype=torch.int64))


DTYPES = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts(dtype):
    x = tensor(41, dtype=dtype, low=0, high=100)
    check(lambda x: [x.to(d) for d in DTYPES if d != dtype], x)


def test_float_to_integer_truncates():
    x = torch.tensor([0.0, 0.9, -0.9, 1.5, -1.5, 127.7, -127.7, 1e6, -1e6, 16777217.0])
    check(lambda x: (x.int(), x.long(), x.bool()), x)
    check(lambda x: (x.to(torch.int8), x.to(torch.int16)), x[:7])


@pytest.mark.parametrize("dtype", slow_but(
    (torch.float32, torch.bfloat16, torch.int32, torch.bool), DTYPES))
def test_type_promotion(dtype):
    x = tensor(11, dtype=dtype, low=0, high=9)
    scalar = torch.tensor(3, dtype=dtype)
    for other in (torch.float32, torch.float16, torch.int64, torch.uint8):
        y = tensor(11, dtype=other, low=1, high=9, seed=1)
        check(lambda x, y, s: (x + y, x * y, x < y, s + y, y * s, x + 2, x * 1.5, torch.where(y > 2, x, y)),
              x, y, scalar)


def test_scalars():
    x = tensor(37)
    check(lambda x: (x + 2, 2 - x, x * 3, x / 4, 5 / x, x ** 2, x ** 3, x ** 0.5, x ** -1, x ** -0.5, x ** 2.7,
                     x ** -2, x ** 0, 2 ** x, x % 3, x // 2, 7 % x, torch.fmod(x, 0.3), x > 0.5, x == 1,
                     torch.add(x, 3, alpha=2), torch.sub(x, x, alpha=0.5), torch.rsub(x, 1, alpha=3)), x)


def test_selection():
    x, y, m = tensor(7, 11), tensor(11, seed=1), tensor(7, 1, dtype=torch.bool)
    check(lambda x, y, m: (torch.where(m, x, y), torch.where(m, x, 0.5), torch.where(m, 2.0, y),
                           x.masked_fill(m, -INF), x.masked_fill(m, torch.tensor(3.0))), x, y, m)


def test_clamp():
    x = torch.cat([tensor(113), SPECIAL])
    low, high = tensor(len(x), seed=1) - 1, tensor(len(x), seed=2) + 1
    check(lambda x, low, high: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=1), x.clamp(low, high),
                                x.clamp(min=low), x.clamp(max=high), x.clamp(2, 1), torch.clamp_min(x, 0.1),
                                torch.clamp_max(x, 0.1)), x, low, high)
    check(lambda x: (x.clamp(-3, 5), x.clamp(min=1), x.clamp(-1.5, 2.5)), tensor(37, dtype=torch.int64))


CHOICES = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "clamp_min": lambda x: x.clamp(min=0),
    "clamp_max": lambda x: x.clamp(max=1),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "threshold": lambda x: F.threshold(x, 0.5, 0.5),
    "hardtanh": F.hardtanh,
    "where_less": lambda x: torch.where(x < 0, 0, x),
    "where_not_less": lambda x: torch.where(x >= 0, x, 0),
    "where_greater": lambda x: torch.where(x > 1, 1, x),
    "where_not_greater": lambda x: torch.where(x <= 1, x, 1),
    "where_tensor": lambda x: torch.where(x < x.flip(0), x.flip(0), x),
}


def test_choices_between_what_is_compared():
    """Drivers make minima and maxima of them, which know no NaN: alone, and with more behind."""
    check(lambda x: [tail(f(x)) for f in CHOICES.values()
                     for tail in (torch.Tensor.clone, lambda y: y * 2 + 1, lambda y: 1 / y)], SPECIAL)


def test_three_operands():
    a, b, c = (tensor(5, 7, seed=k) for k in range(3))
    check(lambda a, b, c: (torch.lerp(a, b, 0.3), torch.lerp(a, b, c), torch.addcmul(a, b, c, value=0.7),
                           torch.addcdiv(a, b, c, value=2), torch.round(a, decimals=2),
                           torch.round(a * 1000, decimals=-2), torch.heaviside(a, b)), a, b, c)


@pytest.mark.parametrize("shapes", [((), ()), ((1,), (3,)), ((3, 5), (5,)), ((3, 1), (1, 5)), ((7, 1, 11), (3, 1)),
                                    ((2, 3, 4, 5), (3, 1, 1)), ((0, 5), (5,)), ((3, 0), (3, 1)), ((113,), ()),
                                    ((4, 8), (4, 8)), ((4, 8, 16), (8, 1)), ((4, 8, 16), (4, 1, 16))])
def test_broadcast(shapes):
    a, b = tensor(*shapes[0]), tensor(*shapes[1], seed=1)
    check(lambda a, b: (a + b, a * b - a, torch.relu(b)), a, b)


def test_views_as_inputs():
    x = tensor(7, 11, 5)
    check(lambda x: x.transpose(0, 2) * 2 + x.permute(2, 1, 0), x)
    check(lambda x: x[:, 2:9] * x[:, 1:8], x)
    check(lambda x: x.transpose(1, 2).reshape(7, 55) + 1, x)
    check(lambda a, b: a + b, x.transpose(0, 1), tensor(11, 7, 5, seed=1))
    check(lambda a: torch.exp(a), x[::2, 1:, ::3])
    check(lambda a: a * 2, x.expand(3, 7, 11, 5))


def test_long_chain_of_mixed_types():
    def chain(a, b, m):
        c = torch.where(m, a, b.float())
        d = (c > 0).int() + b.int()
        e = torch.sigmoid(c) * d + a.half().float()
        return torch.tanh(e) / (1 + e * e), d, e.to(torch.int64) ^ b
    check(chain, tensor(37, 41), tensor(37, 41, dtype=torch.int64), tensor(41, dtype=torch.bool))


def test_symbolic_sizes_and_scalars():
    def scaled(x):
        return x * x.shape[0] + x.shape[1] - torch.arange(x.shape[1]) + torch.full_like(x, x.shape[0])
    check(scaled, tensor(5, 7), more=[(tensor(11, 3),), (tensor(29, 37),)], dynamic=True)


def test_filling():
    def make(x):
        return (torch.zeros(3, 5), torch.ones(7, dtype=torch.int64), torch.full((2, 3), 1.5), torch.zeros_like(x),
                torch.ones_like(x, dtype=torch.float16), torch.full_like(x, -7), x.new_zeros(2), x.new_full((3,), 5),
                torch.full((2,), 2 ** 40), torch.full((3,), True), torch.scalar_tensor(2.5), x + 1,
                torch.full((3,), NAN), torch.full((3,), -INF), torch.eye(5), torch.eye(3, 7, dtype=torch.int64))
    check(make, tensor(5, 7))


def test_ranges():
    def make(x):
        return (torch.arange(113), torch.arange(3, 29), torch.arange(3, 29, 4), torch.arange(10, -5, -3),
                torch.arange(2.1, -2.9, -1.0, dtype=torch.int64),
                torch.arange(-0.9, 7.9, 1.7, dtype=torch.int32),
                torch.arange(0, 1, 0.1), torch.arange(37.0), torch.arange(5, dtype=torch.float16),
                torch.arange(2 ** 33, 2 ** 33 + 7), torch.arange(7, dtype=torch.int32), x + 1,
                torch.linspace(-1, 1, 37), torch.linspace(0, 5, 1), torch.linspace(3, -2, 10))
    check(make, tensor(5, 7))


@pytest.mark.parametrize("name", ["log", "log2", "log10", "sqrt", "rsqrt", "erf"])
def test_denormal_arguments(name):
    """Results that are normal numbers are right even where arithmetic flushes denormals."""
    x = torch.arange(1, 1 << 23, 104729, dtype=torch.int32).view(torch.float32)
    function = getattr(torch, name)
    exact = function(x.double())
    x = x[exact.abs() >= 2.0 ** -126]
    compiled = torch.compile(lambda x: (function(x), function(-x)), backend="vulkan", options={"min_block_size": 1})
    result, negative = compiled(x)
    torch.testing.assert_close(result, function(x.double()).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(negative, function(-x.double()).float(), rtol=1e-6, atol=0, equal_nan=True)


def test_division_at_the_ends():
    """Denormal, huge and infinite divisors: GLSL promises nothing of them."""
    ends = torch.tensor([0.0, -0.0, 1e-45, -1e-40, 6e-39, 1.2e-38, 2e-38, 1.0, -3.0, 4e37, 8.6e37, 1.8e38, -3e38,
                         INF, -INF, NAN])
    a, b = (t.flatten() for t in torch.meshgrid(ends, ends, indexing="ij"))
    constants = ends[2:].tolist()
    compiled = torch.compile(lambda a, b, x: [a / b, *(x / v for v in constants), torch.reciprocal(x)],
                             backend="vulkan", fullgraph=True, options={"min_block_size": 1})
    x = ends.double()
    expected = [a.double() / b.double(), *(x / v for v in constants), 1 / x]
    for result, exact in zip(compiled(a, b, ends), expected, strict=True):
        kept = ~((exact.abs() < 2.0 ** -126) & (exact != 0))  # denormal results: as the device has them
        torch.testing.assert_close(result[kept], exact.float()[kept], rtol=1.2e-7, atol=0, equal_nan=True)
        sure = kept & ~exact.isnan()
        assert torch.equal(result[sure].signbit(), exact[sure].signbit())
    check(torch.atan2, a[~a.isnan()], b[~a.isnan()])


# Identities of real numbers that do not hold for nan, inf and -0; a driver must not use them.
IDENTITIES = {
    "x * 0": lambda x: x * 0, "0 * x": lambda x: 0.0 * x, "x * -0": lambda x: x * -0.0,
    "x * 1": lambda x: x * 1, "x * -1": lambda x: x * -1, "x + 0": lambda x: x + 0,
    "x + -0": lambda x: x + -0.0, "x - 0": lambda x: x - 0, "0 - x": lambda x: 0 - x,
    "-0 - x": lambda x: -0.0 - x, "x - x": lambda x: x - x, "-x + x": lambda x: -x + x,
    "0 / x": lambda x: 0 / x, "x / 1": lambda x: x / 1, "x / x": lambda x: x / x, "x / inf": lambda x: x / INF,
    "x * inf": lambda x: x * INF, "x + inf": lambda x: x + INF, "x ** 0": lambda x: x ** 0,
    "x ** 1": lambda x: x ** 1, "zeros * x": lambda x: torch.zeros_like(x) * x,
    "zeros + x": lambda x: torch.zeros_like(x) + x, "ones * x": lambda x: torch.ones_like(x) * x,
    "x * 0 + 1": lambda x: x * 0 + 1, "(x + 1) * 0": lambda x: (x + 1) * 0, "x * 2 - x - x": lambda x: x * 2 - x - x,
    "add alpha 0": lambda x: torch.add(x, x, alpha=0), "sub alpha 1": lambda x: torch.sub(x, x),
    "addcmul 0": lambda x: torch.addcmul(x, x, x, value=0), "lerp 0": lambda x: torch.lerp(x, x, 0.0),
    "x % inf": lambda x: torch.fmod(x, INF), "max(x, x)": lambda x: torch.maximum(x, x), "--x": lambda x: x.neg().neg(),
    "|-x|": lambda x: (-x).abs(), "sqrt(x * x)": lambda x: (x * x).sqrt(), "x == x": lambda x: (x == x).float(),
    "x != x": lambda x: (x != x).float(), "x < x": lambda x: (x < x).float(), "x <= x": lambda x: (x <= x).float(),
    "not x < 1": lambda x: (~(x < 1)).float(), "clamp": lambda x: x.clamp(-INF, INF),
    "where": lambda x: torch.where(x == 0, x * 0, x * 1), "float literal": lambda x: x.float() * 0 + x.float(),
}


@turns(2)
@pytest.mark.parametrize("dtype", slow_but((torch.float32, torch.float16), FLOATS))
def test_identities_that_do_not_hold(dtype):
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.5, 3e4, -3e4, 6e-5], dtype=dtype)
    compiled = torch.compile(lambda x: [f(x) for f in IDENTITIES.values()], backend="vulkan", fullgraph=True,
                             options={"min_block_size": 1, "require_full_compilation": True})
    for (name, function), result in zip(IDENTITIES.items(), compiled(x), strict=True):
        # A fused chain keeps float32 between its operators: squares do not overflow there.
        expected = function(x.float()).to(dtype) if name == "sqrt(x * x)" else function(x)
        torch.testing.assert_close(result, expected, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}")
        number = ~torch.isnan(expected)
        assert torch.equal(torch.signbit(result[number]), torch.signbit(expected[number])), (
            name, result, expected)


def test_identities_that_do_not_hold_one_by_one():
    """The same, each in a kernel of its own: what a driver folds depends on what is around it."""
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.5])
    for name in ("x * 0", "x + 0", "x - x", "0 / x", "x / x", "x * 1", "x - 0", "0 - x"):
        function = IDENTITIES[name]
        compiled = torch.compile(function, backend="vulkan", fullgraph=True, options={"min_block_size": 1})
        result, expected = compiled(x), function(x)
        torch.testing.assert_close(result, expected, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}")
        number = ~torch.isnan(expected)
        assert torch.equal(torch.signbit(result[number]), torch.signbit(expected[number])), name

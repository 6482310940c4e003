"""Ints among a function's arguments, and sizes as numbers: all 64 bits of them."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from helpers import assert_same, engines, vulkan
from marks import turns

SMALL = [5, 7, -1, -3, 2]
LARGE = [2**31 - 1, 2**31, -(2**31) - 1, 2**32 + 3, 2**50, -(2**50)]
HUGE = [2**62, -(2**63), 2**63 - 1]


def outcome(function, *args):
    """The result, or the type of the exception."""
    try:
        return function(*args)
    except Exception as error:
        return RuntimeError if isinstance(error, RuntimeError) else type(error)


def captured(function, *args):
    """What Dynamo makes of it with nothing compiled: some releases raise what tracing raised."""
    torch._dynamo.reset()
    return outcome(torch.compile(function, backend="eager", dynamic=True), *args)


def compare(function, arguments, native=False):
    """The compiled function does what eager does for each of the arguments; all in engines, unless
    some may run natively."""
    fast = vulkan(function, dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore" if native else "error", message="torch_vulkan")
        for args in arguments:
            got, want = outcome(fast, *args), outcome(function, *args)
            if isinstance(want, type) or isinstance(got, type):
                assert got == want or got == captured(function, *args), (args, got, want)
            else:
                assert_same(got, want)
    if not native:
        assert engines(compilations.compilations()) >= 1
        assert not any(c.native for c in compilations.compilations())


FLOATS = torch.tensor([1.5, -2.25, 3e-9, 0.0, 1e10, float("inf")])
WHOLE = torch.tensor([3, -7, 0, 2**40 + 1, -(2**62), 11])

VALUES = {
    "mul": lambda x, s: x * s,
    "add": lambda x, s: x + s,
    "rsub": lambda x, s: s - x,
    "lt": lambda x, s: torch.relu(x) < s,
    "clamp_max": lambda x, s: (x + 1).clamp(0, s),
    "clamp_min": lambda x, s: x.clamp(s, 3),
    "clamp_both": lambda x, s: x.clamp(s - 2, s),
    "where": lambda x, s: torch.where(x > 0, 2, s) + x,
    "where_first": lambda x, s: torch.where(x > 0, s, 2) + x,
    "masked_fill": lambda x, s: x.masked_fill(x > 1, s),
    "full": lambda x, s: torch.full_like(x, s) + x,
    "full_compared": lambda x, s: torch.zeros(4, dtype=x.dtype).add_(s) <= 2,
    "full_cast": lambda x, s: torch.full_like(x, s).to(torch.bool),
    "alpha": lambda x, s: x.add(x + 1, alpha=s),
    "alpha_of_a_number": lambda x, s: x.sub(3, alpha=s),
    "pad": lambda x, s: F.pad(x, (1, 2), value=s) + 1,
    "scatter": lambda x, s: torch.scatter(x, 0, torch.tensor([2, 4]), s) * 2,
    "searchsorted": lambda x, s: torch.bucketize(s, x.sort()[0]),
    "arange": lambda x, s: torch.arange(s, s + 18, 3) + x,
    "remainder": lambda x, s: x.nan_to_num(1, 1) % s,
}


@pytest.mark.parametrize("function", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("x", [FLOATS, WHOLE], ids=["float32", "int64"])
def test_an_int_is_a_number_of_64_bits(function, x):
    compare(function, [(x, s) for s in [*SMALL, *LARGE]])


def test_an_int_beyond_what_a_call_carries_runs_natively():
    compare(lambda x, s: x * s, [(WHOLE, s) for s in [*SMALL, *HUGE]], native=True)


def test_a_number_beyond_64_bits_that_the_graph_is_captured_with():
    def function(x, s):
        return x * (s % 7)

    fast = vulkan(function)
    assert_same(fast(FLOATS, 3), function(FLOATS, 3))
    with pytest.warns(UserWarning, match="engines take those below 2\\^62") as said:
        for s in (2**64, 2**64 + 1, 5):
            assert_same(fast(FLOATS, s), function(FLOATS, s))
    assert not [w for w in said if "AOTAutograd" in str(w.message)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_int_beside_16_bit_floats_is_not_rounded_first(dtype):
    x = torch.tensor([1.0, 3, 0.37, 255], dtype=dtype)
    compare(lambda x, s: x * s, [(x, s) for s in (5, 257, 2049, -4099, 70001)])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
@pytest.mark.parametrize("name", ["mul", "lt", "clamp_max", "full", "masked_fill", "alpha"])
def test_an_int_that_does_not_fit_a_narrow_type_does_what_eager_does(name, dtype):
    x = torch.tensor([1, 2, 100, 0], dtype=dtype)
    compare(VALUES[name], [(x, s) for s in [*SMALL, 100, 200, 300, -129, *LARGE]], native=True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
@pytest.mark.parametrize("name", ["mul", "add", "rsub", "lt"])
def test_an_int_beside_a_narrow_type_wraps_in_engines(name, dtype):
    x = torch.tensor([1, 2, 100, 0], dtype=dtype)
    compare(VALUES[name], [(x, s) for s in [*SMALL, 100, 200, 300, -129, -300, *LARGE]])


def test_a_literal_that_does_not_fit_a_narrow_type():
    x = torch.tensor([1, 2, 200], dtype=torch.uint8)
    compare(lambda x: (x < 300, x < -1, x * 300, x + 1), [(x,)], native=True)


PLACES = {
    "roll": lambda x, s: torch.roll(x, s) + 1,
    "roll_dims": lambda x, s: torch.roll(x, (s, 1), (0, 1)) * 2,
    "tril": lambda x, s: x.tril(s) + 1,
    "triu": lambda x, s: x.triu(s) + 1,
}


@pytest.mark.parametrize("function", PLACES.values(), ids=PLACES.keys())
def test_an_int_is_a_place(function):
    x = torch.arange(35.0).view(5, 7)
    compare(function, [(x, s) for s in [*SMALL, *LARGE]])


SIZES = {
    "slice": lambda x, s: x[s:] * 2,
    "slice_end": lambda x, s: x[:s] * 2,
    "select": lambda x, s: x[s] * 2,
    "pad": lambda x, s: F.pad(x, (s, 1)) + 1,
    "zeros": lambda x, s: torch.zeros(s).sum() + x,
    "narrow": lambda x, s: x.narrow(0, s, 2) * 2,
    "product": lambda x, s: x * (s * s * s),
    "quotient": lambda x, s: x * (12 // (s - 2)),
}


@pytest.mark.parametrize("function", SIZES.values(), ids=SIZES.keys())
def test_an_int_is_a_size(function):
    x = torch.arange(7.0)
    compare(function, [(x, s) for s in (5, 3, 4, -1, -3, -9, 9, 2, 2**22, -(2**40))], native=True)


def test_several_ints():
    def function(x, a, b, c):
        return x * a + b - torch.roll(x, c)

    compare(function, [(FLOATS[:4], 5, 7, 3), (FLOATS[:4], -(2**40), 2**61, -(2**61)),
                       (FLOATS[:4], 9, -9, 2**33)])


def quadratic(a):
    return a.mul(2).add(1).relu().sum() * (a.shape[0] * a.shape[0])


def test_sizes_as_numbers_beyond_2_31():
    compare(quadratic, [(torch.rand(n),) for n in (7, 50_000, 65_536, 3)])
    compare(lambda a: (a.long() + a.shape[0] ** 4, a.shape[0] ** 3 - a),
            [(torch.rand(n),) for n in (7, 2_000, 20_000)])


def test_a_product_of_sizes_beyond_2_63():
    compare(lambda a: a * a.shape[0] ** 5, [(torch.rand(n),) for n in (7, 3, 20_000)], native=True)


class Quadratic(nn.Module):
    def forward(self, a):
        return quadratic(a), a.long() + a.shape[0] ** 4


@pytest.mark.parametrize("kind", ["program", "pt2", "pt", "script"])
def test_sizes_as_numbers_ahead_of_time(kind, tmp_path):
    inputs = [tv.Input(min_shape=[2], opt_shape=[100], max_shape=[100_000])]
    eager = module = torch.jit.script(Quadratic()) if kind == "script" else Quadratic()
    program = tv.compile(module, inputs, min_block_size=1)
    if kind in ("pt2", "pt"):
        path = tmp_path / f"net.{kind}"
        tv.save(program, path, output_format="torchscript" if kind == "pt" else None)
        program = tv.load(path) if kind == "pt2" else torch.jit.load(path)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch_vulkan")
        for n in (50_000, 7, 54_321):
            x = torch.rand(n)
            assert_same(program(x), eager(x))


class Overflowing(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, a):
        self.calls.add_(1)
        return a * self.weight * (a.shape[0] ** 3 // 5 - a.shape[0] ** 5 % 7), self.calls + 0


@pytest.mark.parametrize("saved", [False, True])
def test_a_program_runs_natively_where_kernels_cannot_count(saved, tmp_path):
    inputs = [tv.Input(min_shape=[2, 3], opt_shape=[100, 3], max_shape=[100_000, 3])]
    module = Overflowing()
    program = tv.compile(module, inputs, min_block_size=1)
    if saved:
        tv.save(program, tmp_path / "net.pt2")
        program = tv.load(tmp_path / "net.pt2")
    module.calls.zero_()
    program.calls.zero_()
    other = Overflowing()
    other.load_state_dict(module.state_dict())
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (50, 20_000, 7, 30_000):
            x = torch.rand(n, 3)
            assert_same(program(x), other(x))
    told = [w for w in caught if "the program runs natively" in str(w.message)]
    assert len(told) == 1


# A symbol took the value of the constant before it: immediates follow the tensors.
AFTER_A_CONSTANT = {
    "clamp": lambda x, n: x.clamp(0, n) - 1,
    "clamp_of_ints": lambda x, n: x.long().clamp(0, n - 1),
    "gather": lambda x, n: x[x.long().clamp(0, n - 1)],
    "hardtanh": lambda x, n: F.hardtanh(x, -1, n),
    "threshold": lambda x, n: F.threshold(x, 3, n),
    "softplus": lambda x, n: F.softplus(x, 1, n),
    "softplus_beta": lambda x, n: F.softplus(x, n, 3),
    "elu": lambda x, n: F.elu(x - 4, n),
    "where": lambda x, n: torch.where(x > 2, 1, n) * x,
    "addcmul": lambda x, n: torch.addcmul(x, x, x + 1, value=n),
    "addcdiv": lambda x, n: torch.addcdiv(x, x, x + 1, value=n),
    "lerp": lambda x, n: torch.lerp(x, x + 1, n),
    "pow": lambda x, n: (x / 9) ** n,
    "rpow": lambda x, n: n ** (x / 9),
    "leaky": lambda x, n: F.leaky_relu(x - 4, n),
    "alpha": lambda x, n: torch.add(x, 3, alpha=n) - torch.rsub(x, 2, alpha=n),
    "floor_divide": lambda x, n: x // n + x.long() // n,
    "shift": lambda x, n: (x.long() << n) + (n >> x.long()),
}


@turns(4)
@pytest.mark.parametrize("function", AFTER_A_CONSTANT.values(), ids=AFTER_A_CONSTANT.keys())
def test_a_symbol_after_a_constant(function):
    compare(lambda x: function(torch.sin(x).exp().mul(9) + 1, x.shape[0]),
            [(torch.linspace(0, 7, n),) for n in (2, 6, 11)], native=False)


@pytest.mark.parametrize("function", [
    lambda x, n: F.hardtanh(x, -1, n), lambda x, n: F.elu(x, n), lambda x, n: F.softplus(x, 1, n),
    lambda x, n: F.leaky_relu(x, n)], ids=["hardtanh", "elu", "softplus", "leaky"])
def test_a_symbol_after_a_constant_in_a_gradient(function):
    def gradient(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x, x.shape[0]).square().sum(), x)

    fast = vulkan(lambda x: function(x, x.shape[0]).square().sum(), dynamic=True)
    for n in (2, 6, 11):
        x = torch.linspace(-4, 9, n, requires_grad=True)
        assert_same(torch.autograd.grad(fast(x), x), gradient(x))

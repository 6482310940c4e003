"""softmax and log_softmax along any dimension, and their gradients."""

import pytest
import torch

from parity import FLOATS, OPTIONS, check, check_gradients, check_tactic, on_cpu, tensor


@pytest.mark.parametrize("shape, dim", [((5, 7), 0), ((5, 7), 1), ((3, 5, 7), 1), ((2, 3, 5, 257),
    -1),
                                        ((3, 1031), 1), ((300, 41), -1), ((89,), 0), ((), 0)])
def test_shapes(shape, dim):
    check(lambda x: (x.softmax(dim), x.log_softmax(dim)), tensor(*shape))


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_16_bit_floats(dtype):
    check(lambda x: (x.softmax(1), x.log_softmax(0)), tensor(37, 113, dtype=dtype), double=True)


def test_types_change():
    check(lambda x: x.softmax(-1, dtype=torch.float32), tensor(5, 37, dtype=torch.float16))


def test_extremes():
    x = tensor(7, 29) * 50
    x[0, 3], x[1, 4], x[2] = float("nan"), float("inf"), float("-inf")
    x[3, 5] = float("-inf")
    check(lambda x: (x.softmax(1), x.log_softmax(1)), x)


def test_empty():
    check(lambda x: x.softmax(1) + 1, tensor(0, 5))


def test_masked_scores():
    def function(scores, mask):
        return (scores * 0.125).masked_fill(mask, float("-inf")).softmax(-1) * 2
    check(function, tensor(2, 3, 29, 37), tensor(1, 1, 1, 37, dtype=torch.bool))


def test_views():
    check(lambda x: (x.transpose(0, 1).softmax(-1), x[:, 1:].softmax(0)), tensor(7, 11))


def test_gradients():
    check_gradients(lambda x: (x.softmax(-1), x.log_softmax(0)), tensor(11, 37), length=37)


def test_dynamic_shapes():
    check(lambda x: x.softmax(-1), tensor(5, 7), more=[(tensor(3, 300),), (tensor(113, 2),)],
          dynamic=True)


@pytest.mark.parametrize("length", [4, 113, 2053, 50021])
def test_a_gradient_beside_a_dominant_element(length):
    """g - sum(g y) cancels there: a thousandth of eager's results is left, and of ours all."""
    x = -12 - tensor(5, length).abs()
    x[:, 1], x[:, 3] = 0, -8.6
    g = 2077 + 9 * tensor(5, length, seed=1)

    def gradient(x, g):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(x.softmax(-1), x, g)[0]
    compiled = torch.compile(lambda x: x.softmax(-1), backend="vulkan", options=OPTIONS)
    leaf = x.clone().requires_grad_()
    found = torch.autograd.grad(compiled(leaf), leaf, g)[0]
    exact = gradient(x.double(), g.double())
    largest = exact.abs().amax(1, keepdim=True)
    assert ((found - exact).abs() <= 4e-6 * largest).all()


def test_the_gradient_of_what_is_no_softmax():
    """Any y: its sum may be anything, and so may what is in it."""
    y, g = tensor(5, 37), tensor(5, 37, seed=1)
    y[1] = y[1] / y[1].sum()
    g[2, 3], g[3, 4], y[3, 4] = float("inf"), float("nan"), 0
    y[4] = 0
    check(lambda g, y: torch.ops.aten._softmax_backward_data(g, y, -1, torch.float32), g, y)


@on_cpu
@pytest.mark.parametrize("rows, count", [(1, 32), (7, 37), (0, 64), (41, 1031), (3, 4099), (2, 20011)])
def test_blocks_of_rows(rows, count):
    check_tactic("softmax_simd_blocks",
                 lambda x: ((x * 3).softmax(-1) + 1, x.log_softmax(-1) * 2), tensor(rows, count))


@on_cpu
@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_blocks_of_16_bits(dtype):
    check_tactic("softmax_simd_blocks", lambda x: (x.softmax(1), x.log_softmax(1)),
                 tensor(7, 1553, dtype=dtype), double=True)


@on_cpu
def test_blocks_of_extremes():
    """Of a block and of a row nothing but -inf, infinities, NaN, and exponentials that vanish."""
    x = tensor(9, 2053) * 50
    x[0, 3], x[1, 4], x[2], x[3, :1000], x[4, 2052] = (
        float("nan"), float("inf"), float("-inf"), float("-inf"), float("nan"))
    x[5], x[6], x[6, 2052], x[7, 1:] = 3e38, -3e38, 3e38, float("-inf")
    check_tactic("softmax_simd_blocks", lambda x: (x.softmax(-1), x.log_softmax(-1)), x)


@on_cpu
def test_blocks_of_any_length():
    cases = [(tensor(rows, count),) for rows, count in ((3, 1700), (2, 33), (5, 4099), (1, 512))]
    check(lambda x: (x.softmax(-1), x.log_softmax(-1)), *cases[0], dynamic=True, more=cases[1:])


def test_gradients_of_long_rows():
    check_gradients(lambda x: x.softmax(-1), tensor(5, 1553), length=1553)

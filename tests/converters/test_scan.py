"""cumsum, cumprod, logcumsumexp, cummax, cummin and linear recurrences: a line by one invocation and
by a workgroup."""

import pytest
import torch

from parity import FLOATS, check, check_against_double, check_gradients, tensor

pytestmark = pytest.mark.usefixtures("tactics_of")

INF, NAN = float("inf"), float("nan")


def all_floats(x, dim):
    return (x.cumsum(dim), x.cumprod(dim), x.logcumsumexp(dim), *x.cummax(dim), *x.cummin(dim))


def all_integers(x, dim):
    return (x.cumsum(dim), x.cumprod(dim), *x.cummax(dim), *x.cummin(dim))


def recurrence(x, dim, factor=0.97):
    """Of factors that depend on x, which is more than one operand."""
    return torch.ops.torch_vulkan.linear_recurrence(x, factor * x.sigmoid(), dim)


@pytest.mark.parametrize("shape, dim", [
    ((), 0), ((7, 113), -1), ((5, 3, 29), 1), ((0, 4), 0), ((3, 0), 1), ((2, 1024), 1),
    ((2, 1025, 3), 1), ((1, 2311), 1)])
def test_shapes(shape, dim):
    check(lambda x: all_floats(x, dim), tensor(*shape), length=1025)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_16_bit_floats(dtype):
    check(lambda x: all_floats(x, 1), tensor(3, 71, 2, dtype=dtype), double=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers(dtype):
    check(lambda x: all_integers(x, 0), tensor(89, 3, dtype=dtype))
    check(lambda x: (x.cumsum(1, dtype=torch.float32), x.cumprod(1, dtype=torch.int32)),
          tensor(3, 7, dtype=dtype))


def test_result_types():
    check(lambda x: (x.cumsum(0, dtype=torch.int64), x.cumprod(0, dtype=torch.int8),
                     x.cumsum(0, dtype=torch.float16)), tensor(11, 3) * 3)


def test_special_values():
    x = torch.tensor([[1, NAN, 3, INF], [-INF, -INF, 2, -INF], [INF, 1, -INF, 0], [3, 3, 1, 1],
                      [INF, INF, 2, NAN], [-0.0, 0.0, -0.0, 1], [1e18, 1e18, 1e-30, 1]])
    check(lambda x: all_floats(x, 1), x)
    check(lambda x: all_floats(x, 0), x.t().contiguous())


def test_views_and_fusion():
    def function(x):
        return all_floats(x.transpose(0, 1), 0), x[:, 3:, ::2].sigmoid().cumprod(1).exp()
    check(function, tensor(5, 37, 8))
    check(lambda x: all_floats(x.expand(5, 70), 1), tensor(1, 70))
    check(lambda x: all_floats(x, 1),
          tensor(2, 5, 7, 3).contiguous(memory_format=torch.channels_last))


def test_long_products_and_sums_stay_accurate():
    x = 1 + tensor(3, 20011) * 1e-3
    check(lambda x: (x.cumprod(1), x.cumsum(1), x.logcumsumexp(1)), x, double=True)


def test_dynamic_shapes():
    check(lambda x: all_floats(x, 1), tensor(5, 7), more=[(tensor(3, 1300),), (tensor(1, 1),),
                                                          (tensor(70, 3),)],
          dynamic=True, length=1300)


def test_gradients():
    x = tensor(5, 7, 3) + 0.01
    check_gradients(lambda x: (x.cumsum(1), x.cummax(1)[0], x.cummin(0)[0]), x, length=16)
    check_gradients(lambda x: x.logcumsumexp(1), x, length=64)


def test_gradient_of_cumprod():
    check_gradients(lambda x: x.cumprod(1), tensor(3, 7), length=64)


def test_signs_of_products_that_are_0():
    x = torch.tensor([-0.0, 3.0, -2.0, 1.0])
    fast = torch.compile(lambda x: x.cumprod(0), backend="vulkan", options={"min_block_size": 1})
    assert torch.equal(fast(x).signbit(), x.cumprod(0).signbit())


@pytest.mark.parametrize("shape, dim", [
    ((7, 113), -1), ((5, 3, 29), 1), ((2, 1025, 3), 1), ((1, 2311), 1), ((3, 0), 1), ((1, 5), 0)])
def test_linear_recurrences(shape, dim):
    check(lambda x: recurrence(x, dim), tensor(*shape), length=64)
    check(lambda x: recurrence(x.transpose(0, 1), 0).exp(), tensor(*shape[:2]) - 3, length=64)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_linear_recurrences_in_16_bits(dtype):
    check_against_double(lambda x: recurrence(x, 1), tensor(3, 71, 2, dtype=dtype))


def test_linear_recurrences_of_any_length():
    check(lambda x: recurrence(x, 1), tensor(5, 7), dynamic=True, length=64,
          more=[(tensor(3, 1300),), (tensor(1, 2),), (tensor(70, 3),)])


def test_integers_stay_with_pytorch():
    from torch_vulkan import compilations

    x = tensor(3, 7, dtype=torch.int32)
    fast = torch.compile(lambda x: torch.ops.torch_vulkan.linear_recurrence(x, x, 1),
                         backend="vulkan", options={"min_block_size": 1})
    assert torch.equal(fast(x), torch.ops.torch_vulkan.linear_recurrence(x, x, 1))
    (record,) = compilations.compilations()
    assert not record.engines and "float" in record.native[0].reason

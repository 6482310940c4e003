"""Reductions: sets of dimensions, torch's types of accumulation, nan, sizes around the switches."""

import pytest
import torch

from parity import FLOATS, INTS, check, check_tactic, on_cpu, tensor

SHAPE = (3, 5, 7, 11)
DIMS = [(0,), (1,), (-1,), (0, 1), (2, 3), (0, 2), (1, 3), (0, 1, 2, 3)]


@pytest.mark.parametrize("dims", DIMS)
def test_dimensions(dims):
    def function(x):
        return (x.sum(dims), x.mean(dims, keepdim=True), x.amax(dims), x.amin(dims, keepdim=True),
                x.var(dims, correction=1), x.std(dims, correction=0, keepdim=True),
                torch.linalg.vector_norm(x, 2, dims), torch.linalg.vector_norm(x, 1, dims),
                torch.linalg.vector_norm(x, float("inf"), dims), (x > 0).any(dims),
                    (x > -2).all(dims))
    check(function, tensor(*SHAPE), length=100)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_positions(dim):
    def function(x):
        return (x.argmax(dim), x.argmin(dim, keepdim=True), *x.max(dim), *x.min(dim, keepdim=True),
                x.prod(dim))
    check(function, tensor(5, 7, 11), length=11)


def test_whole_tensors():
    def function(x):
        return (x.sum(), x.mean(), x.max(), x.min(), x.argmax(), x.argmin(), x.var(), x.std(),
                x.norm(), torch.std_mean(x), (x > 3).any(), (x == x).all(),
                torch.aminmax(x, dim=1), torch.aminmax(x), (x - x[0]).count_nonzero(),
                (x - x[0]).count_nonzero((0, 1)))
    check(function, tensor(29, 37), length=1000)


@pytest.mark.parametrize("dtype", INTS + (torch.bool,))
def test_integers(dtype):
    def function(x):
        results = [x.sum(1), x.sum((0, 1)), x.prod(1), x.any(0), x.all(1), x.amax(1), x.amin(0)]
        if dtype != torch.bool:
            results += [x.argmax(1), x.argmin(0), *x.max(1), x.max()]
        return results, x.sum(1, dtype=torch.float32), x.sum(0, dtype=torch.int32)
    check(function, tensor(11, 7, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_16_bit_floats(dtype):
    def function(x):
        return x.sum(1), x.mean((0, 1)), x.amax(0), x.argmax(1), x.var(1), x.norm(dim=0), x.sum(
            0, dtype=torch.float32)
    check(function, tensor(37, 113, dtype=dtype), double=True, length=100)


def test_nan_and_infinity():
    x = tensor(5, 37)
    x[0, 5], x[1, 7], x[2, 3], x[2, 9] = float("nan"), float("inf"), float("-inf"), float("nan")

    def function(x):
        return (x.sum(1), x.amax(1), x.amin(1), x.argmax(1), x.argmin(1), *x.max(1), *x.min(0),
                x.any(1), x.mean(0))
    check(function, x, length=37)


def test_ties_take_the_first():
    check(lambda x: (x.argmax(1), x.argmin(1), x.argmax(0), x.max(1)[1], x.argmax()),
          tensor(7, 300, dtype=torch.int64, low=-2, high=3))


def test_empty_and_scalar():
    check(lambda x, y: (x.sum(0), x.sum(1), x.mean(1), x.prod(0), x.any(1), x.all(0), y.sum(),
        y.mean(0),
                        y.amax(-1), y.argmax(), y.var(correction=0)), tensor(3, 0), tensor())


@pytest.mark.parametrize("shape", [(1, 100003), (2, 65537), (131, 70000), (70001, 3), (257, 1031)])
def test_long(shape):
    check(lambda x: (x.sum(1), x.sum(0), x.mean(), x.amax(1), x.argmax(1)), tensor(*shape),
          length=max(shape))


def test_long_rows_of_integers():
    x = tensor(2, 70001, dtype=torch.int64, low=-1000, high=1000)
    check(lambda x: (x.argmax(1), *x.min(1), x.sum(1), x.amax(1)), x)


def test_heads_and_tails_fuse():
    def function(x, y):
        return torch.relu((x * y + 1).sum(-1) * 0.5), (x - y).abs().amax(0) + 1, (x > y).sum(1)
    check(function, tensor(11, 37), tensor(11, 37, seed=1), length=37)


def test_views_are_read_in_place():
    check(lambda x: (x.permute(2, 0, 1).sum(1), x[:, ::2, 1:].mean((0, 2)), x.expand(3, 5, 7,
        11).sum(0)),
          tensor(5, 7, 11), length=50)


def test_dynamic_shapes():
    check(lambda x: (x.mean(1), x.sum((0, 2)), x.var(-1), x.amax(0), x.argmax(1)), tensor(5, 7, 11),
          more=[(tensor(3, 29, 2),), (tensor(41, 2, 300),)], dynamic=True, length=300)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool])
def test_logical_reductions_of_no_dimension(dtype):
    check(lambda x: (torch.any(x, dim=()), torch.all(x, dim=()), x.count_nonzero(), x.count_nonzero(1)),
          tensor(5, 7, dtype=dtype, low=0, high=2))


@on_cpu
@pytest.mark.parametrize("rows, count", [(1, 128), (7, 131), (41, 1031), (3, 4099), (2, 20011)])
def test_blocks_of_runs(rows, count):
    x = tensor(rows, count)
    x[0, count - 1], x[rows // 2, 0] = 50, -50
    check_tactic("reduce_sum_simd_blocks",
                 lambda x: (torch.relu(x.sum(-1)) + 1, x.mean(-1, keepdim=True)), x, length=count)
    torch._dynamo.reset()
    check_tactic("reduce_max_simd_blocks", lambda x: (x.amax(-1), x.amax(-1, keepdim=True) * 2), x)
    torch._dynamo.reset()
    check_tactic("reduce_min_simd_blocks", lambda x: x.amin(-1), x)


@on_cpu
def test_blocks_that_are_not_finite():
    x = tensor(7, 1553)
    x[0, 1552], x[1, 0], x[2, 5], x[3] = float("nan"), float("nan"), float("inf"), float("-inf")
    x[4, 600], x[4, 601] = float("inf"), float("-inf")
    for kind, function in (("sum", torch.sum), ("max", torch.amax), ("min", torch.amin)):
        torch._dynamo.reset()
        check_tactic(f"reduce_{kind}_simd_blocks", lambda x, f=function: f(x, 1), x, length=1553)
    torch._dynamo.reset()
    check_tactic("reduce_prod_simd_blocks", lambda x: x.prod(1), tensor(5, 1031) / 64 + 1,
                 length=1031)


@on_cpu
def test_blocks_of_images_and_of_any_length():
    check_tactic("reduce_sum_simd_blocks", lambda x: x.mean((2, 3)), tensor(2, 5, 29, 37),
                 length=1073)
    cases = [(tensor(rows, count),) for rows, count in ((3, 1700), (2, 33), (5, 4099), (1, 512))]
    check(lambda x: (x.mean(-1), x.amax(-1)), *cases[0], length=4099, dynamic=True, more=cases[1:])

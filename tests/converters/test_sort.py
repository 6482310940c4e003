"""sort, topk, kthvalue, median, mode, searchsorted: one tile, several tiles, several merges."""

import pytest
import torch

from parity import FLOATS, INTS, check, check_gradients, check_operator, tensor

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
DTYPES = (*FLOATS, *INTS, torch.int16, torch.bool)


def both_orders(x, dim=-1):
    return (*x.sort(dim=dim, stable=True), *x.sort(dim=dim, descending=True, stable=True))


def ties(*shape, dtype=torch.float32):
    return (tensor(*shape) * 3).round().to(dtype)


def picks(x, dim=-1):
    """Single elements: the values, and what lies at the positions."""
    k = max(x.shape[dim] // 3, 1)
    found = [x.kthvalue(k, dim), x.median(dim), x.nanmedian(dim)]
    return [(values, x.gather(dim, at.unsqueeze(dim))) for values, at in found]


@pytest.mark.usefixtures("tactics_of")
@pytest.mark.parametrize("shape, dim", [
    ((), 0), ((5, 3, 29), 1), ((0, 4), 0), ((3, 0), 1), ((2, 16), 1), ((2, 17), 1), ((3, 1024), 1),
    ((3, 1025, 2), 1), ((2, 4096), 1), ((4097,), 0), ((17000,), 0)])
def test_sort(shape, dim):
    check(lambda x: both_orders(x, dim), ties(*shape))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    x = ties(3, 71, 2, dtype=dtype)
    check(lambda x, y: (*both_orders(x, 1), x.msort(), x.argsort(dim=0, stable=True),
                        *both_orders(y)), x, ties(1100, dtype=dtype))


def test_all_bits_of_integers():
    x = torch.randint(-2**63, 2**63 - 1, (3, 1300))
    x[0, :4] = torch.tensor([2**63 - 1, -2**63, 0, -1])
    check(lambda x: (*both_orders(x), *both_orders(x.int())), x)


@pytest.mark.parametrize("length", [9, 2050])
def test_special_values(length):
    values = torch.tensor([NAN, INF, -0.0, 0.0, -INF, 1e-42, -1e-42, -NAN, 3.0])
    x = values[torch.arange(length * 2) * 5 % 9].reshape(2, length)
    check(lambda x: (*both_orders(x), x.topk(7)[0], x.topk(7, largest=False)[0]), x)
    check(lambda x, y: (picks(x), picks(y), x.median(), x.nanmedian(), x[0, :1].nanmedian()),
          x, x.nan_to_num(nan=2.0))


@pytest.mark.parametrize("shape, k, dim", [((7, 113), 5, -1), ((3, 2900), 3, 1), ((3, 2900), 2900, 1),
                                           ((2900, 3), 1100, 0), ((5,), 0, 0), ((9000,), 1, 0)])
def test_topk(shape, k, dim):
    distinct = torch.randperm(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    check(lambda x: (*x.topk(k, dim), *x.topk(k, dim, largest=False)), distinct)
    check(lambda x: (x.topk(k, dim)[0], x.topk(k, dim)[0] * 2 + 1), ties(*shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
def test_picks(dtype):
    check(lambda x, y: (picks(x), picks(y, 1), y.median(), y.nanmedian()),
          ties(5, 41, dtype=dtype), ties(3, 1100, 2, dtype=dtype))


@pytest.mark.parametrize("shape, dim", [((7, 13), -1), ((3, 1100, 2), 1), ((), 0)])
def test_mode(shape, dim):
    def function(x):
        values, at = x.mode(dim)
        return values, x.gather(dim, at.unsqueeze(dim)) if shape else at
    check(function, ties(*shape))
    check(function, ties(*shape, dtype=torch.int64))


def test_views_and_fusion():
    check(lambda x: (*both_orders(x.t(), 0), *both_orders(x[1:, ::2].exp() + 1)), ties(7, 37))
    check(lambda x: both_orders(x.expand(5, 70), 0), ties(1, 70))
    check(lambda x: both_orders(x, 1),
          ties(2, 5, 7, 3).contiguous(memory_format=torch.channels_last))


@pytest.mark.usefixtures("tactics_of")
def test_dynamic_shapes():
    def function(x):
        return (*both_orders(x, 1), x.topk(2, 1)[0], x.median(1)[0], x.mode(1)[0], x.kthvalue(2, 1)[0])
    check(function, ties(5, 7), more=[(ties(3, 1300),), (ties(2, 5000),), (ties(70, 3),)],
          dynamic=True)


def test_gradients():
    x = torch.randperm(105).reshape(5, 7, 3).float()
    check_gradients(lambda x: (x.sort(1)[0], x.topk(2, 0)[0], x.median(1)[0], x.kthvalue(2, 1)[0]),
                    x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype, right):
    lines, values = ties(3, 29, dtype=dtype).sort(-1)[0], ties(3, 41, dtype=dtype)
    check(lambda b, x: (torch.searchsorted(b, x, right=right),
                        torch.searchsorted(b[0], x, right=right, out_int32=True),
                        torch.bucketize(x, b[1], right=right)), lines, values)


def test_searchsorted_of_special_values():
    b = torch.tensor([-INF, -1.0, -0.0, 0.0, 2.0, INF, NAN])
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 2.0, 5.0])
    check(lambda b, x: (torch.searchsorted(b, x), torch.bucketize(x, b, right=True)), b, x)


def test_searchsorted_forms():
    b, x = tensor(3, 29), tensor(3, 7)
    check(lambda b, x: torch.searchsorted(b, x, sorter=b.argsort(1), side="right"), b, x)
    check(lambda b, x: torch.searchsorted(b, x.t()), b[0].sort()[0], x)
    check(lambda b, x: torch.searchsorted(b, x), torch.empty(3, 0), x)
    b = torch.tensor([1, 3, 5])
    check_operator(aten.bucketize.Scalar, 3, b)
    check_operator(aten.bucketize.Scalar, 2.5, b)
    check_operator(aten.searchsorted.Scalar, b.half(), 3.0003, right=True)
    check(lambda b, x: torch.bucketize(x, b), b, tensor(5, 3))
    check(lambda b, x: torch.bucketize(x, b), b.half(), tensor(5, 3))

"""scatter_reduce and what joins elements by index, against eager."""

import math

import pytest
import torch

from parity import INTS, check, tensor

MODES = ("sum", "prod", "mean", "amax", "amin")


def indices(*shape, size, seed=3):
    return tensor(*shape, dtype=torch.int64, low=0, high=size, seed=seed)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("include", [True, False])
def test_every_mode(dim, include):
    shape = [3, 5, 7]
    index = indices(*shape, size=[4, 6, 8][dim])
    check(lambda x, i, s: [x.scatter_reduce(dim, i, s, m, include_self=include) for m in MODES],
          tensor(4, 6, 8), index, tensor(*shape, seed=1), length=16)


@pytest.mark.parametrize("dtype", [*INTS, torch.int16, torch.float16, torch.bfloat16])
def test_dtypes(dtype):
    check(lambda x, i, s: [x.scatter_reduce(0, i, s, m) for m in MODES],
          tensor(4, 6, dtype=dtype), indices(7, 6, size=4), tensor(7, 6, dtype=dtype, seed=1), double=True)


def test_views_and_dynamic_sizes():
    def function(x, i, s):
        return [x.t().scatter_reduce(1, i.t(), s[1:].t(), m) for m in MODES]
    check(function, tensor(5, 7), indices(6, 7, size=5), tensor(7, 7, seed=1), dynamic=True, length=9,
          more=[(tensor(11, 13), indices(10, 13, size=11), tensor(11, 13, seed=2))])


def test_nan_infinities_and_nothing():
    source = torch.tensor([math.nan, math.inf, -math.inf, 1.0, 2.0, 3.0])
    check(lambda x, i, s: [x.scatter_reduce(0, i, s, m, include_self=False) for m in MODES],
          tensor(5), torch.tensor([0, 1, 1, 2, 2, 4]), source)
    check(lambda x, i, s: [x.scatter_reduce(0, i, s, m) for m in MODES],
          tensor(5), torch.zeros(0, dtype=torch.int64), torch.zeros(0))
    check(lambda x, i, s: (x.scatter_reduce(0, i, s[0], "sum"), s[0].scatter_reduce(0, i, s[1], "amax")),
          tensor(5), torch.tensor(0), tensor(2))


def test_results_of_another_type():
    """What reads the result is computed where it is written, and of its type, not the kernel's."""
    source = torch.tensor([math.nan, -2.0, 1.0, -math.inf])
    check(lambda x, i, s: [x.scatter_reduce(0, i, s, m).isnan() for m in MODES]
          + [x.scatter_reduce(0, i, s, m, include_self=False) > -1.5 for m in MODES],
          tensor(5), torch.tensor([0, 1, 1, 4]), source)
    check(lambda x, i, s: [x.scatter_reduce(0, i, s, m).float() + 0.5 for m in ("sum", "amax")],
          tensor(5, dtype=torch.int64), torch.tensor([0, 1, 1, 4]), torch.tensor([2**40 + 1, -3, 7, 5]))


def test_index_reduce():
    def function(x, i, s, t):
        modes = ("prod", "mean", "amax", "amin")
        return [x.index_reduce(0, i, s, m) for m in modes] + [
            x.index_reduce(1, i, t, m, include_self=False) for m in modes]
    check(function, tensor(5, 7), indices(4, size=5), tensor(4, 7, seed=1), tensor(5, 4, seed=2))


def test_scatter_with_reduce():
    check(lambda x, i, s: (x.scatter(0, i, s, reduce="add"), x.scatter(0, i, s, reduce="multiply"),
                           x.scatter(1, i, 2.5, reduce="multiply")),
          tensor(5, 7), indices(3, 4, size=5), tensor(3, 4, seed=1))

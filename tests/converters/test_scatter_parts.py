"""masked_scatter, put, diagonal_scatter, as_strided and its scatter, copies of views, against eager."""

import math

import pytest
import torch

import torch_vulkan as tv

from parity import check, tensor

DTYPES = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_scatter(dtype):
    check(lambda x, m, n, s: (x.masked_scatter(m, s), x.masked_scatter(n, s), x.t().masked_scatter(m.t(), s)),
          tensor(5, 7, dtype=dtype), tensor(5, 7, dtype=torch.bool), tensor(7, dtype=torch.bool, seed=2),
          tensor(7, 11, dtype=dtype, seed=1))


def test_masked_scatter_dynamic():
    check(lambda x, m, s: x.masked_scatter(m, s), tensor(5, 7), tensor(5, 7, dtype=torch.bool),
          tensor(35, seed=1), more=[(tensor(11, 3), tensor(11, 3, dtype=torch.bool), tensor(33, seed=1))],
          dynamic=True)


def test_masked_scatter_of_nothing():
    check(lambda x, m, s: (x.masked_scatter(m, s), x + 1), tensor(5), torch.zeros(5, dtype=torch.bool), tensor(1))


def test_put():
    index = torch.tensor([[3, 20], [7, -1]])
    check(lambda x, i, s: (x.put(i, s), x.put(i[:1], s[1:], accumulate=True), x.t().put(i, s)),
          tensor(5, 7), index, tensor(2, 2, seed=1))
    check(lambda x, i, s: x.put(i, s, accumulate=True), tensor(5, 7), torch.tensor([3, 3, 3, 8]), tensor(4))


def test_put_into_nothing():
    nowhere = torch.zeros(0, dtype=torch.int64)
    check(lambda x, i, y: (x.put(i, x[0]), y + 1), torch.zeros(3, 0), nowhere, tensor(5))


@pytest.mark.parametrize("offset", [0, 2, -3])
def test_diagonal_scatter(offset):
    def function(x):
        return [x.diagonal_scatter(x.diagonal(offset, a, b) * 3, offset, a, b)
                for a, b in ((0, 1), (1, 0), (2, 0), (1, 2))]
    check(function, tensor(5, 7, 6))


def test_diagonal_scatter_types():
    for dtype in DTYPES:
        check(lambda x, s: x.diagonal_scatter(s), tensor(5, 7, dtype=dtype), tensor(5, dtype=dtype, seed=1))


def test_strides():
    def function(x):
        y = x * 2
        return (y.as_strided((3, 4), (2, 1), 1) + 1, y.as_strided((2, 2, 2), (5, 1, 3)) * 2,
                torch.as_strided_copy(y, (3,), (7,), 2), y.as_strided((), (), 4) + 1,
                torch.as_strided_scatter(y, x[0, :6].view(2, 3), (2, 3), (7, 2), 1))
    check(function, tensor(5, 7))


AS_STRIDED = {
    "all of it": ((5, 7), (7, 1), 0),
    "all of it in another order": ((7, 5), (1, 7), 0),
    "all of it, another shape": ((35,), (1,), 0),
    "every third": ((11,), (3,), 1),
    "a part with gaps": ((2, 3, 2), (1, 11, 3), 2),
    "ones": ((2, 1, 3), (9, 5, 1), 4),
    "one element": ((), (), 6),
    "none": ((0, 3), (3, 1), 1),
}


@pytest.mark.parametrize("name", AS_STRIDED)
def test_as_strided_scatter(name):
    size, strides, offset = AS_STRIDED[name]

    def function(x, part):
        return torch.as_strided_scatter(x * 2, part, size, strides, offset) + 1
    part = torch.arange(float(math.prod(size))).view(size) - 100
    check(function, tensor(5, 7), part)
    check(function, tensor(5, 7).long(), part.long())


def test_as_strided_scatter_dynamic():
    check(lambda x: torch.as_strided_scatter(x * 2, x[::2] - 9, x[::2].shape, (2,), 0) + 1, tensor(8),
          more=[(tensor(12),), (tensor(2),)], dynamic=True)


def test_copies():
    check(lambda x: (torch.unfold_copy(x, 1, 3, 2), x.unfold(0, 2, 3) + 1, torch.narrow_copy(x, 1, -3, 2),
                     torch.unbind_copy(x, 1), torch.narrow_copy(x, 0, 1, 2)), tensor(5, 7))
    check(lambda x: (x.unfold(0, 3, 1).sum(-1), x.unfold(1, 2, 2) * 2), tensor(5, 7), dynamic=True,
          more=[(tensor(11, 13),)])


# The kernel that walks a row's entries, as an operator: row i of y begins at entry head[i] of v.
WALK = """
#define ADD 1
#define BASE 1
#define elements y_numel
#define entries v_numel
#define y_OFFSETS(id) const uint row_offset = id, rest_offset = 0u;
#define value_OFFSETS(i) const uint v_offset = i;
#include "scatter_rows.comp"
"""


def test_a_walk_ends_on_any_numbers():
    """Links on memory that holds no list: a driver compiles kernels on zeros."""
    walk = tv.custom_op(
        "tests::walk", "(Tensor x, Tensor head, Tensor next, Tensor v) -> Tensor y", WALK, None,
        lambda x, head, next, v: torch.empty_like(x),
        dtypes={"head": torch.int32, "next": torch.int32})

    def run(head, links):
        integers = [torch.tensor(k, dtype=torch.int32) for k in (head, links)]
        return walk(torch.zeros(len(head)), *integers, torch.tensor([1.0, 2.0, 4.0])).tolist()

    assert run([0, 1, 3], [2, 3, 3]) == [5, 2, 0]
    assert run([0, 1, 2], [0, 0, 0]) == [1, 2, 4]
    assert run([0, -1, 2], [1, 0, -3]) == [3, 0, 4]

"""Every operator that gives indices, with truncate_long_and_double: kernels store int32, and callers
get torch's int64."""

import pytest
import torch
from torch.nn import functional as F

from parity import check, tensor

SEPARATE = torch.randperm(7 * 37 * 3, generator=torch.Generator().manual_seed(1)) / 7.0
LINES = SEPARATE.reshape(7, 37, 3)  # no two values are equal: every index is determined
BOUNDS = torch.arange(-11.0, 11.0, 1.5)

OPERATORS = {
    "sort": lambda x: x.sort(dim=1, stable=True),
    "sort_long": lambda x: x.flatten().repeat(7).sort(stable=True),
    "sort_descending": lambda x: x.sort(dim=1, descending=True),
    "argsort": lambda x: x.argsort(dim=1),
    "msort": lambda x: x.long().msort(),
    "topk": lambda x: x.topk(5, dim=1),
    "topk_smallest": lambda x: x.topk(5, dim=1, largest=False),
    "argmax": lambda x: (x.argmax(), x.argmax(1), x.argmax(1, keepdim=True)),
    "argmin": lambda x: (x.argmin(), x.argmin(1), x.argmin(1, keepdim=True)),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "max_of_longs": lambda x: x.long().max(1)[0],
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x.cummin(1),
    "mode": lambda x: x.mode(1),
    "kthvalue": lambda x: x.kthvalue(4, 1),
    "median": lambda x: x.median(1),
    "nanmedian": lambda x: x.nanmedian(1),
    "nonzero_static": lambda x: torch.nonzero_static(x > 50, size=11),
    "searchsorted": lambda x: torch.searchsorted(BOUNDS, x / 9 - 7),
    "searchsorted_right": lambda x: torch.searchsorted(BOUNDS, x / 9 - 7, right=True),
    "searchsorted_sorter": lambda x: torch.searchsorted(
        x[0, :, 0].contiguous(), x[:2, 0].contiguous(), sorter=x[0, :, 0].argsort()),
    "searchsorted_longs": lambda x: torch.searchsorted(x[0, :, 0].long().msort(), x[1].long()),
    "bucketize": lambda x: torch.bucketize(x / 9 - 7, BOUNDS),
    "max_pool1d": lambda x: F.max_pool1d(x, 2, return_indices=True),
    "max_pool2d": lambda x: F.max_pool2d(x[None], (5, 2), return_indices=True),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x[None], (5, 2), return_indices=True),
    "max_pool3d": lambda x: F.max_pool3d(x[None, None], (2, 5, 2), return_indices=True),
    "one_hot": lambda x: torch.arange(37) == x.argmax(1)[..., None],
    "taken": lambda x: x.gather(1, x.argsort(dim=1)),
    "arithmetic": lambda x: x.argmax(1) * 3 - x.argmin(1),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_indices(name):
    check(OPERATORS[name], LINES, truncate_long_and_double=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.int32, torch.uint8])
def test_other_values(dtype):
    x = torch.stack([torch.randperm(113, generator=torch.Generator().manual_seed(k))
                     for k in range(5)]).to(dtype)
    check(lambda x: (x.sort(1), x.topk(3), x.argmax(1), x.argmin(1), x.cummax(1), x.kthvalue(2, 1)),
          x, truncate_long_and_double=True)


def test_indices_of_any_length():
    check(lambda x: (x.sort(1), x.argmax(1), x.cummin(1)), LINES, more=[(LINES[:, :11],)],
          dynamic=True, truncate_long_and_double=True)


@pytest.mark.usefixtures("tactics_of")
def test_every_tactic():
    check(lambda x: (x.sort(dim=1, stable=True), x.topk(3, 1), x.argmax(1), x.argmin(0), x.cummax(1),
                     x.mode(1)), LINES, truncate_long_and_double=True)


def test_embedding_bag():
    table = tensor(29, 11)
    indices, offsets = tensor(13, dtype=torch.int64, low=0, high=29), torch.tensor([0, 4, 4, 9])
    check(lambda i, o: torch.ops.aten._embedding_bag.default(table, i, o, False, 2),
          indices, offsets, truncate_long_and_double=True)

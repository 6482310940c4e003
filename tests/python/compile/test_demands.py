"""Sizes that PyTorch looks at only when it runs: what it refuses is refused, the rest is built."""

import warnings

import pytest
import torch

from torch_vulkan import compilations

from helpers import assert_same, vulkan

rand = torch.randn


def places(n):
    return torch.arange(n)


# name → (function, arguments that fit, arguments that do not)
CASES = {
    "select": (lambda x, k: (x + 1)[:, k] * 2, (rand(5, 6), 4), (rand(5, 3), 4)),
    "select_scatter": (lambda x: torch.select_scatter(x + 1, x[0] * 3, 0, 2),
                       (rand(5, 4),), (rand(2, 4),)),
    "select_scatter from behind": (lambda x, k: torch.select_scatter(x + 1, x[0] * 3, 0, -k),
                                   (rand(5, 4), 3), (rand(2, 4), 3)),
    "slice_scatter": (lambda x, y: torch.slice_scatter(x + 1, y, 0, 1, 3),
                      (rand(5, 4), rand(2, 4)), (rand(2, 4), rand(2, 4))),
    "slice_scatter of others' columns": (lambda x, y: torch.slice_scatter(x + 1, y, 0, 1, 3),
                                         (rand(5, 4), rand(2, 4)), (rand(5, 4), rand(2, 3))),
    "diagonal_scatter": (lambda x, y: torch.diagonal_scatter(x + 1, y),
                         (rand(5, 4), rand(4)), (rand(5, 4), rand(5))),
    "index_add": (lambda x, i, y: x.index_add(0, i, y) * 2,
                  (rand(5, 3), places(4), rand(4, 3)), (rand(5, 3), places(4), rand(4, 2))),
    "index_put": (lambda x, i, y: x.index_put((i,), y) * 2,
                  (rand(5, 3), places(4), rand(4, 3)), (rand(5, 3), places(4), rand(3, 3))),
    "view": (lambda x: (x + 1)[:, 1:].view(-1) * 2, (rand(1, 4),), (rand(3, 4),)),
    "put": (lambda x, i, y: x.put(i, y) * 2,
            (rand(5, 4), places(6), rand(6)), (rand(5, 4), places(6), rand(5))),
}


@pytest.mark.parametrize("name", CASES)
def test_what_pytorch_refuses_is_refused(name):
    function, fit, other = CASES[name]
    fast = vulkan(function, dynamic=True, optimization_level=0, min_block_size=1)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch_vulkan")
        assert_same(fast(*fit), function(*fit))
        assert all(c.native == [] for c in compilations.compilations())
        with pytest.raises((IndexError, RuntimeError)):
            function(*other)
        with pytest.raises((IndexError, RuntimeError)):
            fast(*other)

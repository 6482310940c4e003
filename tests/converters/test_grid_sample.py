"""grid_sample of images and volumes and its gradients, affine_grid."""

import pytest
import torch
import torch.nn.functional as F

from parity import check, check_gradients, tensor

PADDINGS = ["zeros", "border", "reflection"]
CASES = [("bilinear", 2), ("nearest", 2), ("bicubic", 2), ("bilinear", 3), ("nearest", 3)]
SHAPES = {2: ((2, 3, 5, 7), (2, 4, 9, 2)), 3: ((2, 2, 3, 5, 4), (2, 3, 2, 7, 3))}


def sampled(x, grid, mode):
    return [F.grid_sample(x, grid, mode, padding, align) for padding in PADDINGS
            for align in (False, True)]


def inputs(dims, dtype=torch.float32):
    """Points on both sides of every border, none of which rounds to two elements alike."""
    image, grid = SHAPES[dims]
    return tensor(*image, dtype=dtype), tensor(*grid, dtype=dtype, seed=1) * 1.3


@pytest.mark.parametrize("mode, dims", CASES)
def test_modes(mode, dims):
    check(lambda x, grid: sampled(x, grid, mode), *inputs(dims), length=16)


@pytest.mark.parametrize("mode, dims", CASES)
def test_gradients(mode, dims):
    check_gradients(lambda x, grid: sampled(x, grid, mode)[:5:2 if dims == 3 else 1],
                    *inputs(dims), length=1024)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_floats(dtype):
    x, grid = inputs(2, dtype)
    check(lambda x, grid: [F.grid_sample(x, grid, mode, align_corners=True) for mode in
                           ("bilinear", "bicubic")], x, grid, double=True)


def test_many_points_at_one_element():
    """Sums of a thousand terms, in several sorted tiles."""
    x, grid = tensor(1, 2, 3, 3), tensor(1, 30, 41, 2) * 0.2
    check_gradients(lambda x, grid: F.grid_sample(x, grid, align_corners=False), x, grid,
                    length=4096)


def test_views_and_sizes():
    def function(x, grid):
        return (F.grid_sample(x[:, ::2, 1:].exp(), grid.transpose(1, 2), align_corners=True).relu(),
                F.grid_sample(x.expand(2, 3, 5, 7), grid, align_corners=True))
    x, grid = inputs(2)
    check(function, x.contiguous(memory_format=torch.channels_last), grid, length=16)
    check(lambda x, g: F.grid_sample(x, g, align_corners=False), x, torch.empty(2, 0, 3, 2))
    check(lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", True), tensor(2, 1, 1, 1), grid)


def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[[[1.0, 2, nan], [4, inf, 6]]]])
    grid = torch.tensor([[[[-1.0, -1], [0.9, 0.1], [5, 5], [-7, 0], [1e20, -1e20], [-1, 1]]]])
    check(lambda x, grid: [F.grid_sample(x, grid, mode, "zeros", align_corners=True)
                           for mode in ("bilinear", "nearest")], x, grid)


def test_dynamic_shapes():
    def function(x, grid):
        return F.grid_sample(x, grid, "bilinear", "reflection", align_corners=True)
    more = [(tensor(3, 2, 8, 4), tensor(3, 7, 2, 2)), (tensor(4, 5, 2, 9), tensor(4, 2, 13, 2))]
    check(function, *inputs(2), more=more, dynamic=True, length=16)


@pytest.mark.parametrize("size", [(2, 3, 5, 7), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(size, align):
    dims = len(size) - 2
    check(lambda theta: F.affine_grid(theta, size, align), tensor(2, dims, dims + 1), length=4)

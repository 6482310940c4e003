"""Fake quantisation has eager's bits: the same step at ties, the same mask, the same zeros.

PyTorch has no meta kernels for it, so it is compiled for static sizes only.
"""

import math

import pytest
import torch

import torch_vulkan as tv

from marks import turns
from parity import FLOATS, check, check_gradients, check_operator, tensor

aten = torch.ops.aten
quantize = torch.fake_quantize_per_tensor_affine
BY_NUMBERS = aten.fake_quantize_per_tensor_affine_cachemask.default
BY_CHANNELS = aten.fake_quantize_per_channel_affine_cachemask.default
BY_TENSORS = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default
INF, NAN = math.inf, math.nan


def values(dtype=torch.float32):
    """Steps, what is halfway between them, and what has no step."""
    steps = torch.arange(-300, 301) / 20
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1e-40, -1e-40, 3e38, -3e38, 1e9, -1e9])
    return torch.cat([steps, tensor(500) * 8, special]).to(dtype)


def grid(scale, zero_point):
    return torch.tensor([scale]), torch.tensor([zero_point], dtype=torch.int32)


GRIDS = [(0.1, 3, -128, 127), (0.25, 0, 0, 15), (1e-3, -5, -8, 7), (2.0, 255, 0, 255)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers(dtype):
    for scale, zero_point, first, last in GRIDS:
        check_operator(BY_NUMBERS, values(dtype), scale, zero_point, first, last)


@turns(2, each=("dtype",))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("enabled", [0, 1])
def test_tensors(dtype, enabled):
    for scale, zero_point, first, last in GRIDS:
        check_operator(BY_TENSORS, values(dtype), *grid(scale, zero_point), torch.tensor([enabled]),
                       first, last)


@turns(3, each=("dtype",))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_channels(dtype, axis):
    x = values(dtype)[:1110].view(6, 37, 5)
    x[0, :11, 0] = values(dtype)[-11:]
    x[x.float() > 1e18] = 1e4  # more steps than int64 has: eager mode's cast of them is undefined in C++
    count = x.shape[axis]
    scales = torch.tensor([0.1, 0.25, 2.0]).repeat(13)[:count]
    zeros = torch.arange(count, dtype=torch.int32) % 9 - 3
    check_operator(BY_CHANNELS, x, scales, zeros, axis % 3, -20, 20)


def test_a_zero_point_of_floats_is_a_whole_number():
    for zero_point in (-0.25, 2.75, -3.5):
        check_operator(BY_TENSORS, values(), torch.tensor([0.25]), torch.tensor([zero_point]),
                       torch.tensor([1]), -8, 7)


def test_bits():
    """Zeros have eager's sign, and no result is off by a step."""
    compiled = torch.compile(lambda x: quantize(x, 0.1, 3, -128, 127), backend="vulkan",
                             fullgraph=True, options={"min_block_size": 1})
    x = values()
    assert torch.equal(compiled(x).view(torch.int32), quantize(x, 0.1, 3, -128, 127).view(torch.int32))


def test_views_shapes_and_fusion():
    check(lambda x: quantize(x.t() * 2, 0.1, 0, -128, 127).relu() + 1, tensor(5, 7))
    check(lambda x: quantize(x[:, ::2], 0.1, 0, -128, 127), tensor(5, 7))
    check(lambda x: quantize(x, 0.1, 0, -128, 127), tensor(0, 3))
    check(lambda x, s, z: quantize(x, s, z, -128, 127) + 1, tensor(), *grid(0.3, 2))


def test_gradients():
    check_gradients(lambda x: quantize(x * 3, 0.1, 3, -20, 20), tensor(37, 5))
    scale, zero_point = grid(0.1, 3)
    check_gradients(lambda x: quantize(x * 3, scale, zero_point, -20, 20), tensor(37, 5))


def test_steps_that_float32_does_not_count():
    report = tv.dry_run(lambda x: quantize(x, 1e-9, 0, -(2**31), 2**31 - 1), (tensor(7),),
                        min_block_size=1)
    assert "must be within -2^24 and 2^24" in str(report)

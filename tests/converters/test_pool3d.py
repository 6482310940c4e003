"""Pooling over three dimensions, and the adaptive maximum, against eager."""

import math

import pytest
import torch
import torch.nn.functional as F

from parity import check, check_gradients, tensor

AVERAGES = [
    lambda x: F.avg_pool3d(x, 2),
    lambda x: F.avg_pool3d(x, (3, 2, 2), stride=(1, 2, 1), padding=(1, 0, 1)),
    lambda x: F.avg_pool3d(x, 3, 2, 1, count_include_pad=False),
    lambda x: F.avg_pool3d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
    lambda x: F.adaptive_avg_pool3d(x, (3, 5, 2)),
    lambda x: F.adaptive_avg_pool3d(x, (None, 1, 9)),
]
LARGEST = [
    lambda x: F.max_pool3d(x, 2, return_indices=True),
    lambda x: F.max_pool3d(x, (3, 2, 2), (1, 2, 1), (1, 0, 1), (1, 2, 1), return_indices=True),
    lambda x: F.max_pool3d(x, 3, 2, 1, ceil_mode=True),
    lambda x: F.adaptive_max_pool3d(x, (3, 5, 2), return_indices=True),
]


def test_of_volumes():
    check(lambda x: [f(x) for f in AVERAGES + LARGEST], tensor(2, 3, 5, 11, 7), length=27)


def test_without_a_batch_and_of_views():
    check(lambda x: [f(x) for f in (AVERAGES[1], LARGEST[1])], tensor(3, 5, 11, 7), length=27)
    check(lambda x: [f(x.permute(0, 1, 4, 2, 3)[:, :, 1:]) for f in (AVERAGES[2], LARGEST[3])],
          tensor(2, 3, 11, 7, 5), length=27)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_16_bit(dtype):
    check(lambda x: [f(x) for f in (AVERAGES[4], LARGEST[0], LARGEST[3])],
          tensor(1, 2, 5, 7, 7, dtype=dtype), double=True)


def test_dynamic():
    check(lambda x: (AVERAGES[2](x), LARGEST[2](x), AVERAGES[4](x)), tensor(2, 3, 5, 11, 7),
          more=[(tensor(3, 3, 7, 13, 9),)], dynamic=True, length=27)


def test_nan_and_infinities():
    x = tensor(1, 1, 5, 5, 5)
    x[0, 0, 1, 2, 3], x[0, 0, 4, 0, 0], x[0, 0, 3, 3, 3] = math.nan, math.inf, -math.inf
    check(lambda x: (LARGEST[0](x), LARGEST[3](x), AVERAGES[0](x)), x)


def test_adaptive_maximum_of_images():
    check(lambda x: (F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
                     F.adaptive_max_pool1d(x[0], 5, return_indices=True)), tensor(2, 3, 11, 7))


def test_gradients():
    check_gradients(lambda x: [f(x) for f in AVERAGES], tensor(1, 2, 5, 7, 7), length=64)
    check_gradients(lambda x: [f(x)[0] for f in (LARGEST[0], LARGEST[1], LARGEST[3])],
                    tensor(1, 2, 5, 7, 7), length=64)
    check_gradients(lambda x: F.adaptive_max_pool2d(x, (3, 4)), tensor(2, 3, 11, 7))


def test_no_images():
    check(lambda x: (F.avg_pool3d(x, 2), F.adaptive_max_pool3d(x, 2)) + (x + 1,), tensor(0, 3, 5, 4, 4))

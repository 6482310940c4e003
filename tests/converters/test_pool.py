"""Pooling: windows, padding, dilation, ceil mode, indices, adaptive forms, gradients."""

import pytest
import torch.nn.functional as F

from parity import FLOATS, check, check_gradients, tensor

WINDOWS = [dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=2),
           dict(kernel_size=(3, 2), stride=(1, 3), padding=(1, 0), ceil_mode=True),
           dict(kernel_size=5, stride=1, padding=2)]


@pytest.mark.parametrize("window", WINDOWS)
def test_max_pool2d(window):
    check(lambda x: F.max_pool2d(x, **window), tensor(2, 3, 11, 13))
    check(lambda x: F.max_pool2d(x, return_indices=True, **window), tensor(2, 3, 11, 13))


def test_max_pool2d_dilated():
    check(lambda x: F.max_pool2d(x, 3, 2, 1, dilation=2, return_indices=True), tensor(3, 11, 13))


def test_max_pool2d_nan_and_infinity():
    x = tensor(1, 1, 7, 7)
    x[0, 0, 2, 3], x[0, 0, 5], x[0, 0, :2, :3] = float("nan"), float("-inf"), float("-inf")
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)


def test_one_dimension():
    check(lambda x: (F.max_pool1d(x, 3, 2, 1), F.avg_pool1d(x, 3, 2, 1), F.adaptive_avg_pool1d(x,
        5),
                     F.adaptive_avg_pool1d(x, 1)), tensor(2, 3, 29))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("include", [True, False])
def test_avg_pool2d(window, include):
    check(lambda x: F.avg_pool2d(x, count_include_pad=include, **window), tensor(2, 3, 11, 13),
          length=25)


def test_avg_pool2d_divisor():
    check(lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=7), tensor(3, 11, 13))


@pytest.mark.parametrize("size", [1, (1, 1), (5, 3), (11, 13), (2, 1)])
def test_adaptive_avg_pool2d(size):
    check(lambda x: F.adaptive_avg_pool2d(x, size) * 2, tensor(2, 3, 11, 13), length=143)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_16_bit_floats(dtype):
    check(lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x,
        1)),
          tensor(2, 3, 11, 13, dtype=dtype), double=True)


@pytest.mark.parametrize("window", WINDOWS)
def test_gradients(window):
    check_gradients(lambda x: (F.max_pool2d(x, **window), F.avg_pool2d(x, **window)),
                    tensor(2, 3, 11, 13), length=25)


def test_more_gradients():
    check_gradients(lambda x: (F.max_pool2d(x, 3, 2, 1, dilation=2), F.adaptive_avg_pool2d(x, (5,
        3)),
                               F.adaptive_avg_pool2d(x, 1),
                               F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)),
                    tensor(2, 3, 11, 13), length=25)


def test_dynamic_shapes():
    check(lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)),
          tensor(2, 3, 11, 13), more=[(tensor(5, 3, 29, 7),), (tensor(3, 3, 8, 8),)], dynamic=True,
          length=200)

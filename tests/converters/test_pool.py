"""Pooling: windows, padding, dilation, ceil mode, indices, adaptive forms, gradients."""

import pytest
import torch
import torch.nn.functional as F

from parity import FLOATS, INTS, check, check_gradients, check_tactic, on_cpu, tensor

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


@pytest.mark.parametrize("dtype", INTS + (torch.int16,))
def test_max_pools_of_integers(dtype):
    """Exact, beyond what float32 holds, and with the least of the type, which is the first of its
    window as any other is."""
    ends = torch.iinfo(dtype)
    x = tensor(2, 3, 11, 13, dtype=dtype, low=-100, high=100)
    x[0, 0, :5, :5] = ends.min
    x[1, 2, 3:9, 2:9] = ends.max
    x[1, 2, 4, 4] = ends.max - 1
    check(lambda x: [F.max_pool2d(x, return_indices=True, **window) for window in WINDOWS], x)
    check(lambda x: (F.max_pool2d(x, 3, 2, 1, dilation=2),
                     F.max_pool1d(x[0], 3, 2, 1, return_indices=True)), x)
    check(lambda x: F.max_pool3d(x, 3, 2, 1, return_indices=True), x)


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


LONG = [*WINDOWS, dict(kernel_size=(2, 7), stride=(3, 4), padding=(0, 3)),
        dict(kernel_size=(7, 1), stride=1, padding=(3, 0)),
        dict(kernel_size=3, stride=2, ceil_mode=True), dict(kernel_size=2, divisor_override=3)]


@on_cpu
@pytest.mark.parametrize("window", LONG)
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("width", [7, 37, 113])
def test_means_of_rows_in_vectors(window, include, width):
    check_tactic("avg_pool_simd",
                 lambda x: F.avg_pool2d(x, count_include_pad=include, **window) + 1,
                 tensor(2, 3, 11, width), length=25)


@on_cpu
@pytest.mark.parametrize("size", [(5, 3), (11, 37), (3, 41), (4, 28), (2, 1)])
def test_adaptive_means_of_rows_in_vectors(size):
    check_tactic("avg_pool_simd", lambda x: F.adaptive_avg_pool2d(x, size), tensor(2, 3, 11, 56),
                 length=143)


@on_cpu
@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_means_of_rows_of_16_bits_in_vectors(dtype):
    check_tactic("avg_pool_simd",
                 lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool1d(x[0], 3, 1, 1),
                            F.adaptive_avg_pool2d(x, 5)), tensor(2, 3, 11, 41, dtype=dtype),
                 double=True)


@on_cpu
def test_means_of_rows_of_any_length_in_vectors():
    check_tactic("avg_pool_simd",
                 lambda x: (F.avg_pool2d(x * 2, 3, 2, 1), F.avg_pool2d(x, 2).sigmoid()),
                 tensor(2, 3, 11, 90), more=[(tensor(5, 3, 29, 7),), (tensor(3, 3, 8, 8),)],
                 dynamic=True, length=9)


@on_cpu
def test_means_of_what_is_no_number_in_vectors():
    """In its windows alone, whatever else the vectors of rows have."""
    inf, nan = float("inf"), float("nan")
    x = tensor(1, 2, 9, 41)
    x[0, 0, 4, 20], x[0, 0, 4, 33], x[0, 1, 0, 0], x[0, 1, 8, 40] = inf, -inf, nan, inf
    check_tactic("avg_pool_simd", lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2),
                                             F.adaptive_avg_pool2d(x, (3, 7))), x, length=9)

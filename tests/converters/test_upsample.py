"""Upsampling: sizes, scale factors, corners, 16-bit floats."""

import pytest
import torch
import torch.nn.functional as F

from parity import check, check_operator, tensor

aten = torch.ops.aten
FORMS = [dict(scale_factor=2), dict(size=(11, 13)), dict(scale_factor=(1.5, 2.3)), dict(size=(3,
    5))]
SIZES = [([10, 14], None), (None, [2.0, 2.0]), (None, [1.5, 2.3]), ([3, 5], None), ([5, 7], None)]


@pytest.mark.parametrize("size, scales", SIZES)
def test_kernels(size, scales):
    x = tensor(2, 3, 5, 7)
    check_operator(aten.upsample_nearest2d.vec, x, size, scales)
    check_operator(aten._upsample_nearest_exact2d.vec, x, size, scales)
    for align in (False, True):
        check_operator(aten.upsample_bilinear2d.vec, x, size, align, scales, length=4)


def test_kernels_without_vec():
    x = tensor(2, 3, 5, 7, dtype=torch.float16)
    check_operator(aten.upsample_nearest2d.default, x, [10, 9])
    check_operator(aten.upsample_nearest2d.default, x, [10, 21], 2.0, 3.0)
    check_operator(aten.upsample_bilinear2d.default, x, [10, 9], True)


@pytest.mark.parametrize("form", FORMS)
def test_modes(form):
    """What torch.compile's own decomposition leaves: index arithmetic."""
    check(lambda x: (F.interpolate(x, mode="nearest", **form),
                     F.interpolate(x, mode="bilinear", **form)), tensor(2, 3, 5, 7), length=4)

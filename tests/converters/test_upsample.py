"""Upsampling: sizes, scale factors, corners."""

import pytest
import torch
import torch.nn.functional as F
from parity import check, tensor

FORMS = [dict(scale_factor=2), dict(size=(11, 13)), dict(scale_factor=(1.5, 2.3)), dict(size=(3, 5))]


@pytest.mark.parametrize("form", FORMS)
def test_nearest(form):
    check(lambda x: (F.interpolate(x, mode="nearest", **form),
                     F.interpolate(x, mode="nearest-exact", **form)), tensor(2, 3, 5, 7))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("align", [False, True])
def test_bilinear(form, align):
    check(lambda x: F.interpolate(x, mode="bilinear", align_corners=align, **form),
          tensor(2, 3, 5, 7), length=4)


def test_recomputed_scale():
    check(lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
          tensor(1, 2, 11, 7), length=4)


def test_16_bit_floats():
    check(lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(7, 9), mode="bilinear")),
          tensor(1, 2, 5, 7, dtype=torch.float16), double=True)


def test_dynamic_shapes():
    check(lambda x: F.interpolate(x, scale_factor=2), tensor(2, 3, 5, 7),
          more=[(tensor(3, 3, 11, 5),), (tensor(2, 3, 7, 2),)], dynamic=True,
          require_full_compilation=False)

"""Convolutions of infinities and NaN: docs/accuracy.md says which results are numbers."""

import math

import pytest
import torch
import torch.nn.functional as F

from parity import OPTIONS, tensor

pytestmark = pytest.mark.usefixtures("tactics_of")

CASES = {
    "conv1d": (F.conv1d, (2, 3, 17), (5, 3, 4), {"padding": 2}),
    "conv2d": (F.conv2d, (2, 3, 11, 7), (5, 3, 3, 3), {"padding": 1}),
    "pointwise": (F.conv2d, (1, 37, 11, 7), (41, 37, 1, 1), {}),
    "wide": (F.conv2d, (1, 64, 13, 13), (64, 64, 3, 3), {"padding": 1, "stride": 2}),
    "depthwise": (F.conv2d, (2, 4, 6, 6), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    "dilated": (F.conv2d, (1, 6, 13, 11), (4, 3, 3, 2), {"padding": 3, "dilation": 2, "groups": 2}),
    "conv3d": (F.conv3d, (1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": 1}),
    "transposed1d": (F.conv_transpose1d, (1, 3, 4), (3, 3, 3), {"stride": 2, "padding": 2}),
    "transposed2d": (F.conv_transpose2d, (1, 4, 5, 5), (4, 3, 3, 3), {"stride": 2}),
    "transposed_groups": (F.conv_transpose2d, (2, 4, 4, 4), (4, 1, 3, 3), {"groups": 4}),
    "transposed3d": (F.conv_transpose3d, (1, 2, 3, 3, 3), (2, 3, 2, 2, 2), {"stride": 2}),
}


def spoilt(t: torch.Tensor) -> torch.Tensor:
    """Two elements that are not numbers."""
    flat = t.flatten().clone()
    flat[0], flat[len(flat) // 2] = math.inf, math.nan
    return flat.reshape(t.shape)


def zeroed(t):
    return torch.where(t.isfinite(), t, 0.0).double()


def places(t):
    return (~t.isfinite()).double()


@pytest.mark.parametrize("weights", [True, False], ids=["weights", "inputs"])
@pytest.mark.parametrize("case", CASES)
def test_what_stays_a_number(case, weights):
    """All but results of a product with such a value, and, where that is a weight, those of its
    channel whose window leaves the input: there it may be multiplied by 0 or not at all."""
    function, shape, weight_shape, options = CASES[case]
    x, w = tensor(*shape), tensor(*weight_shape, seed=1)
    x, w = (x, spoilt(w)) if weights else (spoilt(x), w)

    def call(x, w):
        return function(x, w, **options)

    result = torch.compile(call, backend="vulkan", options=OPTIONS)(x, w)
    exact = call(zeroed(x), zeroed(w))
    ones = [torch.ones_like(t).double() for t in (x, w)]
    touched = call(ones[0], places(w)) + call(places(x), ones[1]) > 0.5
    of_channel = touched.any(0, keepdim=True)
    for _ in range(2, touched.dim()):
        of_channel = of_channel.any(-1)
    open_ = of_channel.reshape(1, -1, *[1] * (touched.dim() - 2)) if weights else touched
    assert touched.any() and not touched.all()
    assert not result[touched].isfinite().any()
    assert result[~touched & ~open_].isfinite().all()
    numbers = result.isfinite()
    torch.testing.assert_close(result[numbers].double(), exact[numbers], rtol=1e-4, atol=1e-4)

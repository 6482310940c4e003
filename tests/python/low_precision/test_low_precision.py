"""enabled_precisions on float32 networks: outputs stay float32 and within 1e-2 of max |ref|."""


import pytest
import torch
import torch.nn.functional as F

from torch_vulkan import compilations

from helpers import assert_same, vulkan
from marks import slow_but, turns
from workloads.checks import largest
from workloads.networks import NETWORKS

LIMIT = 1e-2
FIRST = ("ResNet-50", "MobileNetV2", "ViT-B/16", "BERT-base", "GPT-2")


@turns(3)
@pytest.mark.parametrize("name", slow_but(FIRST, NETWORKS))
def test_networks_in_float16(name):
    network = NETWORKS[name]
    model, inputs = network.make(True), network.inputs(1, True, 0)
    compiled = torch.compile(model, backend="vulkan",
                             options={"enabled_precisions": {torch.float32, torch.float16}})
    with torch.no_grad():
        wanted, got = model(**inputs)[0], compiled(**inputs)[0]
    assert all(c.engines for c in compilations.compilations())
    assert got.dtype == torch.float32
    error = largest(got - wanted, wanted)
    assert 1e-6 < error <= LIMIT, "not in float16, or not near enough"


INF, NAN, LOWEST = float("inf"), float("nan"), torch.finfo(torch.float32).min
SETTINGS = ({"enabled_precisions": {torch.float32, torch.float16}},
            {"enable_autocast": True, "autocast_low_precision_type": torch.float16})
VALUES = torch.tensor([INF, -INF, NAN, 1.0, -3.0, 0.0])
INFINITE = {
    "isinf": lambda x: torch.where((x * 2).isinf(), 0.0, x * 2),
    "relu": lambda x: torch.relu(x) * 2,
    "compared": lambda x: x * 2 == INF,
    "reciprocal": lambda x: 1 / (x - 1),
    "masked": lambda x: torch.softmax(x.nan_to_num(0.5, INF, -INF).clamp(max=1.0), -1),
    "weight": lambda x: x[3:] + VALUES[:3],
    "returned": lambda x: x,
}


@pytest.mark.parametrize("options", SETTINGS, ids=["enabled_precisions", "autocast"])
@pytest.mark.parametrize("name", INFINITE)
def test_infinities_stay_infinities(name, options):
    function = INFINITE[name]
    with torch.no_grad():
        assert_same(vulkan(function, **options)(VALUES), function(VALUES))


@pytest.mark.parametrize("options", SETTINGS, ids=["enabled_precisions", "autocast"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_the_models_own_casts_are_its_own(options, dtype):
    x = torch.tensor([70000.0, -1e6, 65504.0, 100003.0, 1.0])
    if dtype.is_floating_point:
        x = torch.cat([x, VALUES])
    with torch.no_grad():
        got, want = vulkan(lambda x: x.to(dtype), **options)(x), x.to(dtype)
    assert got.dtype == dtype
    assert torch.equal(got.nan_to_num(nan=7.0), want.nan_to_num(nan=7.0))


@pytest.mark.parametrize("options", SETTINGS, ids=["enabled_precisions", "autocast"])
def test_a_mask_of_the_lowest_number_stays_finite(options):
    """Of a row that is all masked softmax gives numbers."""
    mask = torch.tensor([[0.0, LOWEST, LOWEST], [LOWEST] * 3])

    def function(x, mask):
        return F.softmax(x + mask, -1)

    x = torch.zeros(2, 3)
    with torch.no_grad():
        assert_same(vulkan(function, **options)(x, mask), function(x, mask))

"""enabled_precisions on float32 networks: outputs stay float32 and within 1e-2 of max |ref|."""


import pytest
import torch

from torch_vulkan import compilations

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

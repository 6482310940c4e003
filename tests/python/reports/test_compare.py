"""tv.compare: which layer of a compiled model does harm, and how much."""

import json
import math

import pytest
import torch
from torch import nn

import torch_vulkan as tv

STRICT = {"min_block_size": 1, "require_full_compilation": True, "optimization_level": 0}


class Net(nn.Module):
    """Its second layer has a value that a step of int8 cannot hold beside the others."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Linear(16, 24), nn.Linear(24, 24), nn.Linear(24, 5)

    def forward(self, x):
        x = self.first(x).relu()
        x = torch.cat([x[:, :1] * 300, x[:, 1:]], 1)
        return self.last(self.second(x).tanh())


def inputs(count=2):
    torch.manual_seed(1)
    return [torch.randn(6, 16) for _ in range(count)]


def int8(model):
    return {**STRICT, "enabled_precisions": {torch.float32, torch.int8},
            "calibration": tv.calibrate(model, inputs(), "minmax")}


def test_the_worst_layer_is_first(tmp_path):
    model = Net().eval()
    found = tv.compare(model, int8(model), inputs())
    assert found.count == 2 and [row["name"] for row in found.layers][0] == "second"
    assert {row["name"] for row in found.layers} == {"first", "second", "last"}
    assert [row["harm"] for row in found.layers] == sorted(
        (row["harm"] for row in found.layers), reverse=True)
    data = json.loads(found.to_json(tmp_path / "found.json"))
    assert data == json.loads((tmp_path / "found.json").read_text())
    assert data["layers"][0]["name"] == "second" and data["count"] == 2
    text = str(found)
    assert text.index("second") < text.index("first") and "autocast_excluded_nodes" in text
    assert found.excluded(1) == ("^second$",)
    better = tv.compare(model, {**int8(model), "autocast_excluded_nodes": found.excluded(1)},
                        inputs())
    assert better.results[0]["snr_db"] > found.results[0]["snr_db"] + 10


def test_figures_are_those_of_the_tensors():
    model = Net().eval()
    settings = int8(model)
    found = tv.compare(model, settings, inputs(1))
    torch._dynamo.reset()
    with torch.no_grad():
        x = inputs(1)[0]
        want, got = model(x).double(), torch.compile(model, backend="vulkan",
                                                     options=settings)(x).double()
    (row,) = found.results
    noise = (got - want).square().sum() / want.square().sum()
    assert row["snr_db"] == pytest.approx(-10 * math.log10(noise), abs=0.1)
    assert row["max_error"] == pytest.approx((got - want).abs().max().item(), rel=1e-3)
    assert row["cosine"] == pytest.approx(torch.cosine_similarity(
        got.flatten(), want.flatten(), 0).item(), abs=1e-6)


def test_a_program(tmp_path):
    model = Net().eval()
    found = tv.compare(model, tv.compile(model, inputs(1), **STRICT), inputs())
    assert all(row["snr_db"] > 100 for row in found.layers + found.results)


@pytest.mark.parametrize("program, data, message", [
    ({}, [], "inputs: there are none"), (3, [1], "got int, want what tv.compile returned"),
    ({"min_block_size": 0}, [1], "min_block_size"),
])
def test_bad_arguments(program, data, message):
    with pytest.raises(ValueError, match=message):
        tv.compare(Net().eval(), program, data)
    with pytest.raises(ValueError, match="in eval mode"):
        tv.compare(Net(), {}, inputs())

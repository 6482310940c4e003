"""The pages of docs/: what they show runs as it stands."""

import re
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from helpers import assert_same

DOCS = Path(__file__).resolve().parents[2] / "docs"


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 7, stride=4), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)).eval()


def test_deployment(tmp_path, monkeypatch):
    """Its Python blocks, one after another, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "deployment.md").read_text(), re.S)
    assert len(blocks) >= 5
    names = {"model": network(0), "new_model": network(1)}
    save_file(network(2).state_dict(), "weights.safetensors")
    for block in blocks:
        exec(block, names)
    x = torch.randn(2, 3, 224, 224)
    assert_same(names["program"](x), network(2)(x).detach())

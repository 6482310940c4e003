"""The pages of docs/: what they show runs as it stands."""

import re
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

import torch_vulkan as tv

from helpers import assert_same

DOCS = Path(__file__).resolve().parents[2] / "docs"


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 7, stride=4), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)).eval()


def test_builder_and_profiler(tmp_path, monkeypatch):
    """Its Python blocks, one after another, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```",
                            (DOCS / "builder_and_profiler.md").read_text(), re.S):
        exec(block, names)
    torch.testing.assert_close(names["out"].shape, names["result"].shape)
    assert {path.name for path in tmp_path.iterdir()} == {
        "net.vke", "trace.json", "layers.svg", "profile.json"}


def test_the_example_of_the_dry_run(tmp_path, monkeypatch):
    """What the page and the README print is what is printed, but for names that PyTorch gives."""
    page = (DOCS / "dry_run.md").read_text()
    (code,) = re.findall(r"```python\n(import torch\nfrom torch import nn\n.*?)```", page, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.S)
    (tmp_path / "detector.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    import detector

    text = str(tv.dry_run(detector.Detector().eval(), [torch.randn(1, 3, 64, 64)])) + "\n"
    if torch.__version__.startswith("2.13"):
        assert text == shown
    (part,) = re.findall(r"```text\n(.*?)```", (DOCS.parent / "README.md").read_text(), re.S)
    assert {*part.splitlines()} <= {*shown.splitlines()}


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

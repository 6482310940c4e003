"""vkexec compare and vkexec debug on graph files."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import torch_vulkan as tv

pytest.importorskip("safetensors", reason="safetensors is not installed")
VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
LEVEL = "--builderOptimizationLevel=0"


class Net(nn.Module):
    """Its sums of large numbers lose most of their bits in float16."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.wide, self.last = nn.Linear(16, 24), nn.Linear(24, 24), nn.Linear(24, 5)

    def forward(self, x):
        x = self.first(x).relu()
        x = self.wide(x * 1000) * 1e-3
        return self.last(x.tanh()).softmax(-1), x


def run(*arguments, code=0):
    done = subprocess.run([VKEXEC, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def graph_of(path):
    data = path.read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["graph"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """net.vkg of batches of 1 to 8, and tensors of a batch of 3."""
    folder = tmp_path_factory.mktemp("graph")
    net = Net().eval()
    tv.export_graph(net, folder / "net.vkg", [tv.Input(
        min_shape=(1, 16), opt_shape=(2, 16), max_shape=(8, 16), name="x")])
    (folder / "ref").mkdir()
    x = torch.randn(3, 16)
    np.save(folder / "ref" / "x.npy", x.numpy())
    info = graph_of(folder / "net.vkg")
    with torch.no_grad():
        for output, tensor in zip(info["outputs"], net(x), strict=True):
            np.save(folder / "ref" / f"{output['name']}.npy", tensor.numpy())
        relu = next(n for n in info["nodes"] if n["op"] == "aten::relu")
        np.save(folder / "ref" / f"{relu['name']}.npy", net.first(x).relu().numpy())
    return folder


def test_compare_with_reference_tensors(folder, tmp_path):
    flags = ["compare", f"--graph={folder}/net.vkg", f"--ref={folder}/ref", LEVEL]
    text = run(*flags)
    assert "=== Outputs ===" in text and text.count(" ok") == 5 and "3x16" not in text
    wrong = tmp_path / "ref"
    wrong.mkdir()
    for file in (folder / "ref").iterdir():
        data = np.load(file)
        np.save(wrong / file.name, data + 1 if file.stem == "relu" else data)
    text = run("compare", f"--graph={folder}/net.vkg", f"--ref={wrong}", LEVEL, code=1)
    assert "made by aten::relu 'relu'" in text and "Stopped at the first tensor" in text


def test_compare_by_harm(folder, tmp_path):
    text = run("compare", f"--graph={folder}/net.vkg", "--shapes=x:4x16", "--fp16", LEVEL,
               "--sensitivity", f"--exportComparison={tmp_path}/harm.json")
    data = json.loads((tmp_path / "harm.json").read_text())
    labels = {layer["node"] for layer in data["layers"]}
    assert any("aten::addmm" in label and label.endswith(" in wide]") for label in labels)
    assert len(data["results"]) == 2 and "sensitivity" in data
    assert "the most harmful first" in text


def test_debug_precision(folder, tmp_path):
    flags = ["debug", "precision", f"--graph={folder}/net.vkg", "--shapes=x:4x16", "--fp16", LEVEL,
             "--snr=75"]
    text = run(*flags, f"--save={tmp_path}/keep.yaml")
    assert "layers must stay in float32" in text
    again = run("compare", f"--graph={folder}/net.vkg", "--shapes=x:4x16", "--fp16", LEVEL,
                f"--config={tmp_path}/keep.yaml", f"--exportComparison={tmp_path}/harm.json")
    assert "Outputs" in again
    for result in json.loads((tmp_path / "harm.json").read_text())["results"]:
        assert result["snr_db"] == "inf" or result["snr_db"] >= 75


def test_debug_reduce_to_a_wrong_result(folder, tmp_path):
    save = tmp_path / "small.vkg"
    text = run("debug", "reduce", f"--graph={folder}/net.vkg", "--shapes=x:4x16", "--fp16", LEVEL,
               "--rtol=1e-5", "--atol=1e-6", f"--save={save}")
    assert "1 of " in text and "nodes fail alike" in text and f"Written to {save}" in text
    assert not list(tmp_path.glob("*.candidate.vkg"))
    again = run("compare", f"--graph={save}", f"--ref={save}.tensors", "--fp16", LEVEL,
                "--rtol=1e-5", "--atol=1e-6", code=1)
    assert "differs" in again
    run("compare", f"--graph={save}", f"--ref={save}.tensors", LEVEL)


def test_debug_reduce_with_a_check(folder, tmp_path):
    save = tmp_path / "small.vkg"
    text = run("debug", "reduce", f"--graph={folder}/net.vkg", "--shapes=x:4x16", LEVEL,
               "--check=! grep -q aten::tanh {}", f"--save={save}")
    assert '1 of ' in text and '[aten::tanh "tanh"]' in text
    assert b"aten::tanh" in save.read_bytes() and b"addmm" not in save.read_bytes()


@pytest.mark.parametrize(("arguments", "says"), [
    (["compare", "--graph=a.vkg", "--onnx=a.onnx"], "got --graph and --onnx"),
    (["compare", "--graph=a.vkg", "--loadEngine=a.vke", "--ref=."], "--loadEngine, want one"),
    (["debug", "reduce", "--graph=a.vkg", "--constants=x:a.npy"], "--constants needs --onnx"),
    (["debug", "reduce"], "want --onnx=FILE or --graph=FILE"),
])
def test_flags_that_do_not_go_together(arguments, says):
    assert says in run(*arguments, code=2)

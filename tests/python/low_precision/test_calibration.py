"""tv.calibrate: what it observes, its caches, what it refuses."""

import dataclasses
import math
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import torch_vulkan as tv
from torch_vulkan._dynamo import backend
from torch_vulkan._fx.refusals import WholeGraph


class Twice(nn.Module):
    """A layer that is called twice, one of its parameters by hand, and one that is not used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.layers = nn.ModuleDict({"a": nn.Linear(4, 4), "unused": nn.Linear(4, 4)})
        self.matrix = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        x = self.conv(x).relu().mean((2, 3))
        x = self.layers["a"](self.layers["a"](x).tanh())
        return functional.softmax(x @ self.matrix, -1)


NAMES = {"conv.input", "layers.a.input", "layers.a.input.1", "matrix.input"}


def batches(count=3, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(2, 3, 5, 7) for _ in range(count)]


def network():
    return Twice().eval()


@pytest.mark.parametrize("method", ["minmax", "entropy", "mse", "percentile"])
def test_what_is_observed(method):
    model, data = network(), batches()
    found = tv.calibrate(model, data, method)
    assert {*found.scales} == NAMES
    most = max(batch.abs().max().item() for batch in data)
    assert 0 < found.amax["conv.input"] <= most * (1 + 1e-6)
    if method == "minmax":
        assert found.amax["conv.input"] == pytest.approx(most)
        with torch.no_grad():
            hidden = [model.conv(x).relu().mean((2, 3)) for x in data]
            second = [model.layers["a"](h).tanh().abs().max().item() for h in hidden]
        assert found.amax["layers.a.input.1"] == pytest.approx(max(second), rel=1e-5)


def test_arguments_by_keyword_and_position():
    model = network()
    x = batches(1)[0]
    want = tv.calibrate(model, [x], "minmax").scales
    assert tv.calibrate(model, [{"x": x}], "minmax").scales == want
    assert tv.calibrate(model, [(x,)], "minmax").scales == want


def test_batches_of_other_sizes():
    data = [torch.randn(n, 3, 5, 7) for n in (1, 4, 2, 3)]
    found = tv.calibrate(network(), data, "minmax")
    assert found.amax["conv.input"] == pytest.approx(max(b.abs().max().item() for b in data))


# --- modules that are captured as several graphs ---

class Pieces(nn.Module):
    """Two parameters of the module itself, in graphs of their own or in another order."""

    def __init__(self, breaks=True):
        super().__init__()
        torch.manual_seed(0)
        self.breaks = breaks
        self.first = nn.Parameter(torch.randn(8, 8))
        self.second = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        if self.breaks:
            x = x @ self.first
            torch._dynamo.graph_break()
            return (x * 100) @ self.second
        if x.shape[0] == 2:
            return (x @ self.first).tanh() @ self.second
        return (x * 100) @ self.second @ self.first


def used(model, calibration):
    return torch.compile(model, backend="vulkan", options={
        "calibration": calibration, "enabled_precisions": {torch.int8}, "min_block_size": 1,
        "optimization_level": 0, "pass_through_build_failures": True})


@torch.no_grad()
def test_a_graph_break():
    torch.manual_seed(1)
    model, x = Pieces().eval(), torch.randn(4, 8)
    found = tv.calibrate(model, [x], "minmax")
    assert {*found.scales} == {"first.input", "second.input"}
    assert found.amax["first.input"] == pytest.approx(x.abs().max().item())
    most = (x @ model.first * 100).abs().max().item()
    assert found.amax["second.input"] == pytest.approx(most, rel=1e-5)
    want = model(x)
    assert (used(model, found)(x) - want).abs().max() < 0.05 * want.abs().max()


@torch.no_grad()
def test_a_branch_on_the_shape():
    torch.manual_seed(1)
    model, data = Pieces(breaks=False).eval(), [torch.randn(2, 8), torch.randn(4, 8)]
    found = tv.calibrate(model, data, "minmax")
    assert {*found.scales} == {"first.input", "second.input"}
    assert found.amax["second.input"] == pytest.approx(data[1].abs().max().item() * 100)
    want = model(data[1])
    assert (used(model, found)(data[1]) - want).abs().max() < 0.05 * want.abs().max()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        torch._dynamo.graph_break()
        return self.layer(x)


def test_two_weights_of_one_name():
    """Functions that are captured by themselves know their own module's names alone."""
    with pytest.raises(ValueError, match="'layer.input' is what two weights go by"):
        tv.calibrate(nn.Sequential(Block(), Block()).eval(), [torch.randn(2, 8)])


class Rows(nn.Module):
    """Captured anew for each number."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, factor: str = ""):
        return self.layer(x * len(factor))


def test_more_graphs_than_dynamos_limit():
    x = torch.ones(2, 8)
    data = [(x, "a" * n) for n in range(1, 13)]
    found = tv.calibrate(Rows().eval(), data, "minmax")
    assert found.amax["layer.input"] == pytest.approx(12)


def test_too_many_graphs(monkeypatch):
    monkeypatch.setattr(tv._torch.own_captures, "LIMIT", 3)
    data = [(torch.ones(2, 8), "a" * n) for n in range(1, 13)]
    with pytest.raises(ValueError, match="was captured 3 times, for other arguments each time"):
        tv.calibrate(Rows().eval(), data, "minmax")


class Sometimes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x) if x.shape[0] > 2 else x.relu()


def test_a_batch_of_which_nothing_is_observed():
    data = [torch.ones(3, 8), torch.ones(2, 8)]
    with pytest.raises(ValueError, match="batch 1: nothing of it was observed"):
        tv.calibrate(Sometimes().eval(), data)


@pytest.mark.filterwarnings("ignore:.*the graph runs natively")
@pytest.mark.parametrize("error", [WholeGraph, RuntimeError])
def test_a_graph_that_is_not_traced(monkeypatch, error):
    def refuse(module):
        raise error("of its operators")

    monkeypatch.setattr(backend, "_refuse_other_storage", refuse)
    with pytest.raises(ValueError, match="nothing of the graph can be observed"):
        tv.calibrate(network(), batches())


def test_many_calibrations_of_a_module():
    """None uses up what Dynamo permits, for itself or for the user."""
    torch._dynamo.reset()
    model = network()
    want = tv.calibrate(model, batches())
    for _ in range(9):
        assert tv.calibrate(model, batches()) == want
    graphs = []

    def counted(module, example_inputs):
        graphs.append(module)
        return module.forward

    with torch.no_grad():
        torch.compile(model, backend=counted)(batches()[0])
    assert len(graphs) == 1


# --- caches ---

def test_text_is_tensorrts(tmp_path):
    path = tmp_path / "net.cache"
    made = tv.calibrate(network(), batches(), "entropy", path)
    lines = path.read_text().splitlines()
    assert lines[0] == "TRT-101401-EntropyCalibration2"
    name, bits = lines[1].rsplit(": ", 1)
    assert len(bits) == 8 and made.scales[name] == torch.tensor(
        int(bits, 16), dtype=torch.int32).view(torch.float32).item()
    read = tv.Calibration.load(path)
    assert read == made and read.to_text() == path.read_text()
    assert not (tmp_path / "net.cache.partial").exists()


TENSORRTS = """TRT-8401-EntropyCalibration2
data: 3c008912
(Unnamed Layer* 64) [Shuffle]_output: 0
a: b: 3f800000
"""


def test_a_cache_of_tensorrts_is_kept_byte_for_byte(tmp_path):
    path = tmp_path / "trt.cache"
    path.write_text(TENSORRTS)
    found = tv.Calibration.load(path)
    assert found.scales["(Unnamed Layer* 64) [Shuffle]_output"] == 0
    assert found.scales["a: b"] == 1 and found.header == "TRT-8401-EntropyCalibration2"
    found.save(tmp_path / "again.cache")
    assert (tmp_path / "again.cache").read_bytes() == path.read_bytes()
    path.write_text(TENSORRTS.replace("\n", "\r\n"))
    assert tv.Calibration.load(path) == found


def test_what_is_required_is_kept(tmp_path):
    path = tmp_path / "net.cache"
    made = dataclasses.replace(tv.calibrate(network(), batches()), required={"matrix.input"})
    made.save(path)
    assert path.read_text().endswith("\n#torch_vulkan required matrix.input: 0\n")
    assert tv.Calibration.load(path) == made and tv.Calibration.load(path).to_text() == (
        path.read_text())
    with torch.no_grad():
        used(network(), path)(batches(1)[0])
        wrong = dataclasses.replace(made, required={"matrix"})
        with pytest.raises(Exception, match="'matrix' is required in int8: no product"):
            used(network(), wrong)(batches(1)[0])


@pytest.mark.parametrize("text, message", [
    (TENSORRTS + "#torch_vulkan required : 0\n", "which another version wrote"),
    ("", "line 1: got ''"),
    ("data: 3c008912\n", "line 1: .* begins like TRT-8601"),
    ("TRT-x-EntropyCalibration2\n", "begins like"),
    ("TRT-110000-EntropyCalibration2\n", "another version; want one of TensorRT 5 to 10"),
    ("TRT-8401-Other\n", "the algorithm 'Other', want one of EntropyCalibration2"),
    (TENSORRTS[:-4], "line 4: .* cut short"),
    (TENSORRTS + "b", "line 5: .* cut short"),
    ("TRT-8401-EntropyCalibration2\na" + "é" * 50 + "\n", "line 2: got 'aé{29}…'"),
    ("TRT-8401-EntropyCalibration2\na: 7f800000\n", "scale of 'a' is inf"),
    ("TRT-8401-EntropyCalibration2\na: 7fc00000\n", "scale of 'a' is nan"),
    ("TRT-8401-EntropyCalibration2\na: bf800000\n", "scale of 'a' is -1"),
    ("TRT-8401-EntropyCalibration2\na: 3f800000\na: 3f800001\n", "'a' is there twice"),
    ("TRT-8401-EntropyCalibration2\n\na: 3f800000\n", "line 2: got ''"),
])
def test_damaged_caches(tmp_path, text, message):
    path = tmp_path / "bad.cache"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        tv.Calibration.load(path)
    with pytest.raises(ValueError, match=message):
        tv.Settings.from_options({"calibration": path,
                                  "enabled_precisions": {torch.float32, torch.int8}})


@pytest.mark.parametrize("content, shown", [
    (b"\x00\x1b[31m\xff\x80", rb"'\x00\x1b[31m\xff\x80'"), ("é\x07".encode(), "'é\\x07'".encode()),
    (b"TRT-8401-EntropyCalibration2\n\xff\x1b: 7f800000\n", rb"scale of '\xff\x1b' is inf")])
def test_binary_caches_do_not_reach_the_terminal(tmp_path, content, shown):
    path = tmp_path / "bad.cache"
    path.write_bytes(content)
    vkexec = Path(tv.__file__).parent / "bin" / "vkexec"
    done = subprocess.run([vkexec, "--onnx=x", "--int8", f"--calib={path}"], capture_output=True)
    assert done.returncode == 2 and shown in done.stderr, done.stderr


def test_a_cache_is_read_and_no_batch_is_run(tmp_path):
    path = tmp_path / "net.cache"
    made = tv.calibrate(network(), batches(), "minmax", path)
    assert tv.calibrate(network(), None, "minmax", path) == made
    with pytest.raises(ValueError, match="is of MinMaxCalibration, method='entropy' makes"):
        tv.calibrate(network(), None, "entropy", path)
    with pytest.raises(ValueError, match="there is no cache to read"):
        tv.calibrate(network(), None, "entropy", tmp_path / "none.cache")


# --- interruptions ---

def interrupted(data, at):
    for i, batch in enumerate(data):
        if i == at:
            raise KeyboardInterrupt
        yield batch


def test_an_interrupted_calibration_goes_on(tmp_path):
    path, data = tmp_path / "net.cache", batches(5)
    whole = tv.calibrate(network(), data, "entropy")
    with pytest.raises(KeyboardInterrupt):
        tv.calibrate(network(), interrupted(data, 3), "entropy", path)
    assert (tmp_path / "net.cache.partial").exists() and not path.exists()
    changed = [torch.full_like(data[0], 1e4)] * 3 + data[3:]  # which are not run again
    assert tv.calibrate(network(), changed, "entropy", path) == whole
    assert not (tmp_path / "net.cache.partial").exists()


def test_a_bad_batch_leaves_nothing_behind(tmp_path):
    path, data = tmp_path / "net.cache", batches(3)
    overflow = data[1] * 1e38  # infinite behind the convolution, which had been counted
    with pytest.raises(ValueError, match="batch 1: '.*' holds infinities"):
        tv.calibrate(network(), [data[0], overflow], "minmax", path)
    assert tv.calibrate(network(), data, "minmax", path) == tv.calibrate(
        network(), data, "minmax")


def test_partial_files_of_others(tmp_path):
    path, data = tmp_path / "net.cache", batches(3)
    with pytest.raises(KeyboardInterrupt):
        tv.calibrate(network(), interrupted(data, 2), "entropy", path)
    other = network()
    with torch.no_grad():
        other.matrix += 1
    with pytest.raises(ValueError, match="is of another model or version, or of other options"):
        tv.calibrate(other, data, "entropy", path)
    partial = tmp_path / "net.cache.partial"
    partial.write_bytes(partial.read_bytes()[:100])
    with pytest.raises(ValueError, match="cannot be read: remove it"):
        tv.calibrate(network(), data, "entropy", path)


def test_partial_files_of_other_points(tmp_path):
    """Of a model with the same weights, which it uses otherwise."""
    class Either(nn.Module):
        def __init__(self, at):
            super().__init__()
            torch.manual_seed(0)
            self.at, self.layers = at, nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

        def forward(self, x):
            return self.layers[self.at](x)

    path, data = tmp_path / "net.cache", [torch.ones(2, 8)] * 3
    with pytest.raises(KeyboardInterrupt):
        tv.calibrate(Either(0).eval(), interrupted(data, 2), "minmax", path)
    with pytest.raises(ValueError, match="it has 'layers.0.input', this one 'layers.1.input'"):
        tv.calibrate(Either(1).eval(), data, "minmax", path)


def test_progress(capsys):
    tv.calibrate(network(), batches(2), "minmax", progress=True)
    assert "calibrate: calibrated in" in capsys.readouterr().err


# --- what is refused ---

@pytest.mark.parametrize("data, message", [
    ([], "holds no data"),
    ([torch.zeros(0, 3, 5, 7)], "batch 0: input .*is empty"),
    ([torch.ones(2, 3, 5, 7), torch.full((2, 3, 5, 7), math.nan)], "batch 1: input .*holds NaN"),
])
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        tv.calibrate(network(), data)


@pytest.mark.parametrize("arguments, message", [
    ({"method": "kl"}, "want one of entropy, percentile, mse, minmax"),
    ({"percentile": 0}, "a number above 0"), ({"percentile": 101}, "up to 100"),
])
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        tv.calibrate(network(), batches(1), **arguments)


def test_bad_models():
    with pytest.raises(ValueError, match="call .eval"):
        tv.calibrate(Twice(), batches(1))
    with pytest.raises(ValueError, match="got int, want"):
        tv.calibrate(3, batches(1))
    with pytest.raises(ValueError, match="no product or convolution with constant weights"):
        tv.calibrate(nn.ReLU().eval(), batches(1))

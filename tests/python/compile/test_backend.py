"""The package as a whole: import, devices, processes, what is reported, what a call costs."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._fx import importer

from helpers import assert_same, check, engines, vulkan
from workloads.patience import patience


def python(program, **environment):
    """Runs a program in a process of its own."""
    return subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          env={**os.environ, **environment}, timeout=patience(300))


def test_devices(device):
    assert device.index == 0 and device.name and len(device.uuid) == 32
    assert device.type in ("discrete", "integrated", "virtual", "cpu", "other")
    assert json.loads(device.profile())["name"] == device.name


def test_supported_ops():
    ops = {info["op"]: info for info in tv.supported_ops()}
    assert {"aten::relu", "aten::add.Tensor", "aten::addmm", "aten::convolution"} <= set(ops)
    assert not ops["aten::view"]["is_compute"] and ops["aten::relu"]["is_compute"]


def test_import_and_error_without_a_loader(tmp_path):
    program = """
import torch, torch_vulkan as tv
assert tv.supported_ops()
f = torch.compile(lambda x: torch.relu(x) * 2, backend="vulkan", options={"min_block_size": 1})
for call in (tv.devices, lambda: f(torch.ones(3))):
    try:
        call()
    except RuntimeError as error:
        print(error)
    else:
        raise SystemExit("no error")
"""
    done = python(program, TORCH_VULKAN_LIBRARY=str(tmp_path / "libvulkan.so.1"),
                  VK_ICD_FILENAMES=str(tmp_path / "none.json"),
                  VK_DRIVER_FILES=str(tmp_path / "none.json"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("install") >= 2, done.stdout


def test_process_ends_without_a_hang():
    done = python("""
import torch, torch_vulkan, threading
f = torch.compile(lambda x: torch.relu(x) * 2, backend="vulkan", options={"min_block_size": 1})
with torch.no_grad():
    f(torch.ones(3))
    threading.Thread(target=lambda: [f(torch.ones(3)) for _ in range(1000)]).start()
print("done")
""")
    assert done.returncode == 0 and "done" in done.stdout, done.stderr


def test_fork_after_use():
    done = python("""
import os, torch, torch_vulkan as tv
f = torch.compile(lambda x: torch.relu(x) * 2, backend="vulkan", options={"min_block_size": 1})
with torch.no_grad():
    f(torch.ones(3))
    pid = os.fork()
    if pid == 0:
        try:
            f(torch.ones(3))
        except RuntimeError as error:
            print("child:", error, flush=True)
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    print("status", os.waitstatus_to_exitcode(status), f(torch.ones(3)).tolist())
""")
    assert "status 7 [2.0, 2.0, 2.0]" in done.stdout, done.stdout + done.stderr
    assert "fork" in done.stdout


def test_fork_after_import_alone():
    done = python("""
import os, torch, torch_vulkan as tv
pid = os.fork()
if pid == 0:
    os._exit(0 if tv.devices() else 1)
print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(tv.devices()) > 0)
""")
    assert "status 0 True" in done.stdout, done.stdout + done.stderr


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        x = torch.linalg.matrix_power(x, 2)
        return torch.relu(self.norm(self.conv(x)))


def test_records_name_source_and_module():
    model = nn.Sequential(Block(), nn.Flatten(), nn.Linear(4 * 4 * 4, 2)).eval()
    records = check(model, torch.randn(2, 3, 6, 6))
    assert engines(records) == 1
    native = [n for n in records[0].native if "matmul" in n.op or "bmm" in n.op or "linalg" in n.op
              or n.op == "aten::mm"]
    for record in native:
        assert record.module_path == "0"


def test_small_residual_network():
    class Residual(nn.Module):
        def __init__(self, c, d, stride):
            super().__init__()
            self.a = nn.Conv2d(c, d, 3, stride, 1, bias=False)
            self.na = nn.BatchNorm2d(d)
            self.b = nn.Conv2d(d, d, 3, 1, 1, bias=False)
            self.nb = nn.BatchNorm2d(d)
            self.short = nn.Conv2d(c, d, 1, stride)

        def forward(self, x):
            y = self.nb(self.b(torch.relu(self.na(self.a(x)))))
            return torch.relu(y + self.short(x))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1),
                          Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(16, 5)).eval()
    records = check(model, torch.randn(2, 3, 29, 37), require_full_compilation=True)
    assert engines(records) == 1 and records[0].coverage == 1


def test_small_transformer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 3, 48, batch_first=True, dropout=0.0)
    model = nn.Sequential(nn.Embedding(50, 24), layer).eval()
    x = torch.randint(0, 50, (2, 11))
    compilations.clear()
    fast = vulkan(model)
    with torch.no_grad():
        # The fused fast path of nn.TransformerEncoderLayer is not what is compiled.
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert compilations.compilations()[0].coverage == 1


def test_fullgraph_and_decorator():
    @torch.compile(backend="vulkan", fullgraph=True, options={"min_block_size": 1})
    def function(x):
        return torch.relu(x) + 1

    with torch.no_grad():
        assert_same(function(torch.ones(4)), torch.full((4,), 2.0))


def test_keyword_arguments_and_containers():
    def function(batch, *, scale):
        return {"y": torch.relu(batch["x"]) * scale, "z": [batch["x"] + 1]}

    fast = vulkan(function)
    x = torch.randn(3, 4)
    with torch.no_grad():
        assert_same(fast({"x": x}, scale=2.0), function({"x": x}, scale=2.0))


def test_compile_with_inputs():
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU()).eval()
    batch = tv.Input(min_shape=(2, 8), opt_shape=(4, 8), max_shape=(16, 8))
    program = tv.compile(model, [batch], min_block_size=1)
    count = engines(compilations.compilations())
    for size in (2, 9, 16):
        x = torch.randn(size, 8)
        torch.testing.assert_close(program(x), model(x).detach())
    assert count == engines(compilations.compilations()) == 1 == len(tv.engines(program))


@pytest.mark.parametrize("shapes", [
    {}, {"shape": (1,), "min_shape": (1,)}, {"min_shape": (1,), "max_shape": (2,)},
    {"min_shape": (3,), "opt_shape": (2,), "max_shape": (4,)}])
def test_bad_input(shapes):
    with pytest.raises(ValueError, match="Input"):
        tv.Input(**shapes)


def test_bad_compile_arguments():
    with pytest.raises(ValueError, match="want a torch.nn.Module"):
        tv.compile(lambda x: x, [torch.ones(2)])
    with pytest.raises(ValueError, match="did you mean"):
        tv.compile(nn.Linear(2, 2), [torch.ones(1, 2)], optimisation_level=3)


def test_fake_tensors_know_the_results():
    from torch._subclasses.fake_tensor import FakeTensorMode

    from torch_vulkan._engines import fake
    from torch_vulkan._fx import engine_call

    calls = []
    with engine_call.collected(calls), torch.no_grad():
        vulkan(lambda x: torch.relu(x).t(), dynamic=True)(torch.randn(4, 6))
    engine = calls[0].engine
    stand_in = fake.FakeEngine.__obj_unflatten__(engine.__obj_flatten__())
    with FakeTensorMode():
        (out,) = stand_in.results([torch.empty(5, 9)])
    assert out.shape == (9, 5) and out.stride() == (1, 9)


EXPORT_AFTERWARDS = """
import torch, torch_vulkan
from torch import nn
fast = torch.compile(nn.ReLU(), backend="vulkan", options={"min_block_size": 1})
fast(torch.randn(3))
program = torch.export.export(nn.ReLU(), (torch.randn(3),))
op = torch.ops.aten._upsample_nearest_exact1d.default
print("left", len(program.run_decompositions({op: op.decompose}).graph.nodes))
"""


def test_exports_of_others_are_left_alone():
    done = subprocess.run([sys.executable, "-c", EXPORT_AFTERWARDS], capture_output=True, text=True)
    assert "left" in done.stdout, done.stderr


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_captured_graph_is_imported_once(dynamic, monkeypatch):
    """Also where it becomes several engines, of sizes that no argument of theirs shows."""
    graphs = []
    real = importer.Importer.run
    monkeypatch.setattr(importer.Importer, "run", lambda self: graphs.append(self) or real(self))

    def function(x, n):
        y = torch.tan(torch.sin(x).cumsum(0) * n)  # tan is native: engines before and behind it
        return y.view(-1).exp(), torch.arange(x.shape[0] * 2) + n

    records = check(function, torch.randn(3, 4), 2, dynamic=dynamic,
                    torch_executed_ops={"aten::tan"})
    assert engines(records) > len(records) == len(graphs)

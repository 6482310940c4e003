"""Compiled TorchScript modules as programs: files, other processes, C++, weights, reports."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import torch_vulkan as tv
from torch_vulkan._dry_run.report import SCHEMA

sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_modules import Loop, Mlp, compiled, engines  # noqa: E402

from workloads.patience import patience  # noqa: E402


@pytest.fixture(scope="module")
def program():
    """(source, program) of a network with a loop and branches."""
    return compiled(Loop(), torch.randn(4, 6), 3, script=True)


READER = """
import sys, torch
if sys.argv[1] == "tv":
    import torch_vulkan as tv
    program = tv.load(sys.argv[2])
else:
    torch.classes.load_library(sys.argv[1])  # all that a process without torch_vulkan needs
    program = torch.jit.load(sys.argv[2])
assert sys.argv[1] == "tv" or "torch_vulkan" not in sys.modules
torch.manual_seed(1)
x = torch.randn(4, 6)
print([program(x, 3).sum().item(), program(x, 5).sum().item()])
"""


@pytest.mark.parametrize("reader", ["tv", "library"])
def test_in_another_process(program, tmp_path, reader):
    source, made = program
    tv.save(made, tmp_path / "net.pt")
    library = Path(tv.cmake_prefix_path) / "lib" / "libtorch_vulkan.so"
    done = subprocess.run(
        [sys.executable, "-c", READER, "tv" if reader == "tv" else library, tmp_path / "net.pt"],
        capture_output=True, text=True, timeout=patience(300))
    assert done.returncode == 0, done.stderr
    torch.manual_seed(1)
    x = torch.randn(4, 6)
    want = [source(x, 3).sum().item(), source(x, 5).sum().item()]
    assert json.loads(done.stdout) == pytest.approx(want, rel=1e-4, abs=1e-4)


def test_files(program, tmp_path):
    _, made = program
    path = tmp_path / "net.pt"
    tv.save(made, path)
    loaded = tv.load(path)
    x = torch.randn(4, 6)
    assert torch.equal(loaded(x, 3), made(x, 3))
    assert [e.name for e in tv.engines(loaded)] == [f"vulkan_engine_{i}" for i in range(5)]
    assert torch.equal(tv.load(path, device=0)(x, 3), made(x, 3))
    with pytest.raises(ValueError, match="saved as 'torchscript'"):
        tv.save(made, path, output_format="exported_program")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match="cut short"):
        tv.load(path)


def test_engines_alone(program):
    _, made = program
    found = tv.engines(made)
    assert len(found) == engines(made) == 5
    loop = next(e for e in found if e.info()["weights"])
    assert [w["name"] for w in loop.info()["weights"]] == ["linear.weight", "linear.bias"]
    x = torch.randn(4, 6)
    (name,) = (i["name"] for i in loop.info()["inputs"])
    (got,) = loop.run({name: x}).values()
    torch.testing.assert_close(got, torch.tanh(made.linear.weight.mm(x.t()).t()
                                               + made.linear.bias).detach())


def test_weights():
    x = torch.randn(3, 7)
    source, made = compiled(Mlp(), x)
    assert made.state_dict().keys() == source.state_dict().keys()
    assert all(a.data_ptr() == b.data_ptr() for a, b in zip(
        made.parameters(), source.parameters(), strict=True))
    made(x)
    with torch.no_grad():
        for tensor in made.parameters():
            tensor.mul_(1.5)
    torch.testing.assert_close(made(x), source(x))
    torch.manual_seed(5)
    newer = {name: torch.randn_like(value) for name, value in source.state_dict().items()}
    tv.refit(made, newer)
    other = Mlp().eval()
    other.load_state_dict(newer)
    torch.testing.assert_close(made(x), other(x))
    with pytest.raises(ValueError, match="no weight"):
        tv.refit(made, {"layers.9.weight": torch.zeros(1)})
    twin = copy.deepcopy(made)
    with torch.no_grad():
        dict(twin.named_parameters())["layers.0.weight"].zero_()
    torch.testing.assert_close(made(x), other(x))
    assert not torch.allclose(twin(x), other(x))
    _, fixed = compiled(Mlp(), x, immutable_weights=True)
    with pytest.raises(ValueError, match="immutable_weights"):
        tv.refit(fixed, newer)


def test_a_second_compilation_builds_nothing(tmp_path):
    x = torch.randn(3, 7)
    compiled(Mlp(), x, engine_cache_dir=str(tmp_path))
    before = tv.cache.stats()
    _, made = compiled(Mlp(), x, engine_cache_dir=str(tmp_path))
    after = tv.cache.stats()
    assert after["hit"] == before["hit"] + 1 and after["miss"] == before["miss"]


def test_profile(program):
    _, made = program
    with tv.profile(made) as profile:
        made(torch.randn(4, 6), 2)
    assert {layer["engine"] for layer in profile.layers} <= {f"vulkan_engine_{i}"
                                                             for i in range(5)}
    assert profile.time_us > 0


def test_dry_run():
    source = torch.jit.script(Loop().eval())
    report = tv.dry_run(source, [tv.Input(shape=(4, 6)), 3], min_block_size=1)
    jsonschema.validate(json.loads(report.to_json()), json.loads(SCHEMA.read_text()))
    assert {g["function"] for g in report.data["graphs"]} == {
        "forward", "forward, in a loop", "forward, in a branch"}
    (loop,) = (g for g in report.data["graphs"] if g["function"] == "forward, in a loop")
    assert loop["flops"] == 2 * 4 * 6 * 6 and loop["covered_nodes"] == 2
    reasons = {n["operator"]: n["reason"] for g in report.data["graphs"] for n in g["native"]}
    assert reasons["aten::sin"] == "the example inputs did not reach it"
    assert "change from one execution to the next" in reasons["aten::add.Scalar"]
    assert "aten::linear x1" in str(report) and report.data["model"] == "Loop"


def test_dry_run_setting(capsys):
    source = torch.jit.trace(Mlp().eval(), torch.randn(3, 7))
    assert tv.compile(source, inputs=[tv.Input(shape=(3, 7))], dryrun=True) is source
    assert "0.0% of 4 compute nodes in 0 engines" in capsys.readouterr().out


def test_what_compiling_leaves_alone():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))
            self.calls = 0

        def forward(self, x):
            self.count += 1
            self.calls += 1
            x.add_(1)
            return torch.relu(x * self.count + self.calls)

    source = torch.jit.script(Counts().eval())
    x = torch.zeros(2, 3)
    made = tv.compile(source, inputs=[x], min_block_size=1, optimization_level=0)
    assert source.count.sum() == 0 and source.calls == 0 and x.sum() == 0
    assert made.calls == 0
    fresh = Counts()
    for _ in range(3):
        torch.testing.assert_close(made(x.clone()), fresh(x.clone()))


def test_flops():
    """A traced transposed convolution says so in an argument, not in its name."""
    model = nn.Sequential(nn.Conv1d(4, 6, 3), nn.ConvTranspose1d(6, 5, 3, stride=2)).eval()
    x = torch.randn(2, 4, 16)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    report = tv.dry_run(torch.jit.trace(model, x), [x])
    assert report.data["flops"] == counter.get_total_flops() > 0


def test_a_program_without_engines_is_one_too(tmp_path):
    """A module too small for an engine is saved, loaded and asked like others."""
    source = torch.jit.script(nn.Linear(3, 2).eval())
    made = tv.compile(source, inputs=[torch.randn(2, 3)])
    assert tv.engines(made) == []
    tv.save(made, tmp_path / "net.pt")
    x = torch.randn(2, 3)
    loaded = tv.load(tmp_path / "net.pt")
    assert torch.equal(loaded(x), source(x)) and tv.engines(loaded) == []
    with tv.profile(loaded) as profile:
        loaded(x)
    assert profile.layers == []
    tv.refit(loaded, {"bias": torch.ones(2)})
    assert torch.equal(loaded(x), torch.nn.functional.linear(x, source.weight, torch.ones(2)))


@pytest.mark.parametrize("call", [lambda m, path: tv.save(m, path / "net.pt"),
                                  lambda m, path: tv.engines(m)])
def test_a_module_that_was_not_compiled_is_no_program(tmp_path, call):
    with pytest.raises(ValueError, match="want what tv.compile"):
        call(torch.jit.script(nn.Linear(3, 2)), tmp_path)

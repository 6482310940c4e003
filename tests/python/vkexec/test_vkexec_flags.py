"""Values of vkexec's flags that mean nothing: each is refused before anything runs."""

import subprocess

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from helpers import one_node_file
from vkexec_helpers import ONCE, VKEXEC, run
from workloads.patience import patience

LONG = "n" * 300


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    return one_node_file(tmp_path_factory.mktemp("flags") / "relu.onnx", "Relu")


NUMBERS = ["--duration", "--warmUp", "--iterations", "--idleTime", "--streams", "--avgRuns",
           "--seed", "--percentile", "--builderOptimizationLevel"]


@pytest.mark.parametrize("flag", [*NUMBERS, "--memPoolSize"])
@pytest.mark.parametrize("value", ["nan", "-nan", "inf", "-1", "1e999", "9" * 30, "x", "1x"])
def test_numbers_that_are_none(flag, value):
    text = f"{flag}=workspace:{value}" if flag == "--memPoolSize" else f"{flag}={value}"
    said = run("--loadEngine=missing.vke", text, code=2)
    assert flag in said and "RUNNING" not in said


@pytest.mark.parametrize("value", ["-2", "nan", "0.5", "9" * 30, "x"])
def test_seconds_of_tuning_that_are_none(value):
    said = run("--loadEngine=missing.vke", f"--tuningSeconds={value}", code=2)
    assert f"--tuningSeconds: got '{value}', want an integer from -1 up" in said


@pytest.mark.parametrize("value", ["-3", "-1x", "nan", "9" * 30, "x", "50%"])
def test_budgets_of_weights_that_are_none(value):
    said = run("--loadEngine=missing.vke", f"--weightStreamingBudget={value}", code=2)
    assert f"--weightStreamingBudget: got '{value}'" in said and "RUNNING" not in said


@pytest.mark.parametrize("flag", ["--atol", "--rtol"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "x"])
def test_tolerances_that_are_none(flag, value):
    said = run("compare", "--loadEngine=missing.vke", "--ref=.", f"{flag}={value}", code=2)
    assert flag in said and f"'{value}'" in said


@pytest.mark.parametrize("shapes", [["--maxShapes=x:0x4"], ["--optShapes=x:0x4"],
                                    ["--minShapes=x:0x4", "--maxShapes=x:0x4"]])
def test_a_largest_size_of_0(shapes):
    said = run("--onnx=missing.onnx", "--noCache", *shapes, code=2)
    assert "0x4, of which nothing runs; want sizes of 1 or more" in said
    assert "RUNNING" not in said


@pytest.mark.parametrize("shapes, message", [
    (["--minShapes=x:3x4", "--maxShapes=x:2x4"], "want --minShapes ≤ --optShapes ≤ --maxShapes"),
    (["--minShapes=x:3x4", "--maxShapes=x:4"], "different numbers of dimensions")])
def test_ranges_that_are_none(shapes, message):
    said = run("--onnx=missing.onnx", *shapes, code=2)
    assert message in said and "RUNNING" not in said


def test_names_that_are_too_long(onnx_file, tmp_path):
    """A cache that cannot be is none; what is to be written is an error; no signal ends it."""
    base = (f"--onnx={onnx_file}", "--shapes=x:2x4", "--builderOptimizationLevel=1", *ONCE)
    done = subprocess.run([VKEXEC, *base, f"--cacheDir={tmp_path / LONG}"], capture_output=True,
                          text=True, timeout=patience(120))
    assert done.returncode == 0
    assert "cannot write" in done.stderr and "File name too long" in done.stderr
    run(*base, "--noCache", f"--timingCacheFile={tmp_path / LONG}")
    for flag, end in (("--exportTimes", ""), ("--exportOutput", ""), ("--exportProfile", ".json"),
                      ("--exportLayerInfo", ""), ("--exportGraph", ".svg"), ("--saveEngine", ""),
                      ("--debugDir", "")):
        assert "File name too long" in run(*base, "--noCache", f"{flag}={tmp_path / LONG}{end}",
                                           code=1)
    run("--onnx=" + LONG, code=1)
    run("--loadEngine=" + LONG, code=1)
    run("compare", "--loadEngine=missing.vke", "--ref=" + LONG, code=1)
    assert not [*tmp_path.iterdir()]


def test_names_that_are_too_long_in_python(tmp_path, capfd):
    model, x = nn.Linear(4, 3).requires_grad_(False), torch.randn(2, 4)
    fast = torch.compile(model, backend="vulkan", options={
        "min_block_size": 1, "engine_cache_dir": tmp_path / LONG, "optimization_level": 1})
    torch.testing.assert_close(fast(x), model(x))
    assert "File name too long" in capfd.readouterr().err
    with pytest.raises(OSError, match="File name too long"):
        tv.save(tv.compile(model, [x], min_block_size=1), tmp_path / f"{LONG}.pt2")
    with pytest.raises(ValueError, match="engine_cache_dir: got .*want a path"):
        tv.compile(model, [x], engine_cache_dir="a\0b")
    assert not [*tmp_path.iterdir()]

"""The C++ examples: built against the package as an application would be, and run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from workloads.patience import patience

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with both applications."""
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")
    folder = tmp_path_factory.mktemp("cpp")
    prefixes = f"{tv.cmake_prefix_path};{torch.utils.cmake_prefix_path}"
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    environment = {**os.environ, "CCACHE_NOHASHDIR": "1"}
    for command in (["cmake", "-S", ROOT / "examples" / "cpp", "-B", folder, *generator, *launcher,
                     f"-DCMAKE_PREFIX_PATH={prefixes}"],
                    ["cmake", "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def run(*command):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_PRELOAD")}
    return subprocess.run([*map(str, command)], capture_output=True, text=True,
                          timeout=patience(300),
                          env=environment)


@pytest.fixture(scope="module")
def program():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()
    rows = tv.Input(min_shape=(1, 3, 8, 8), opt_shape=(2, 3, 8, 8), max_shape=(4, 3, 8, 8))
    return model, tv.compile(model, [rows], min_block_size=1)


def numbers(text):
    return {line.split(": ")[0]: line.split(": ")[1] for line in text.splitlines()}


def test_torchscript_in_libtorch(built, program, tmp_path):
    model, compiled = program
    tv.save(compiled, tmp_path / "net.pt", output_format="torchscript")
    for batch in (1, 3):
        done = run(built / "run_program", tmp_path / "net.pt", batch, 3, 8, 8)
        assert done.returncode == 0, done.stderr
        want = model(torch.ones(batch, 3, 8, 8)).sum().item()
        assert float(numbers(done.stdout)["sum"]) == pytest.approx(want, rel=1e-4, abs=1e-4)
        assert numbers(done.stdout)["shape"] == f"[{batch}, 5]"
    done = run(built / "run_program", tmp_path / "net.pt", 5, 3, 8, 8)
    assert done.returncode == 1 and "got 5, want 1 to 4" in done.stderr


class Steps(nn.Module):
    """A loop around a layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        for _ in range(3):
            x = torch.relu(self.layer(x)) + 0.5
        return x.flatten(1).sum(1)


def test_torchscript_compiled_in_cpp(built, tmp_path):
    torch.manual_seed(0)
    model = Steps().eval()
    torch.jit.script(model).save(tmp_path / "net.pt")
    done = run(built / "compile_program", tmp_path / "net.pt", tmp_path / "made.pt", 2, 3, 8, 8)
    assert done.returncode == 0, done.stderr
    found = numbers(done.stdout)
    assert found["engines"] == "2" and found["covered"] == "4 of 4"
    assert float(found["difference"]) < 1e-4
    done = run(built / "run_program", tmp_path / "made.pt", 2, 3, 8, 8)
    assert done.returncode == 0, done.stderr
    want = model(torch.ones(2, 3, 8, 8)).sum().item()
    assert float(numbers(done.stdout)["sum"]) == pytest.approx(want, rel=1e-4)
    done = run(built / "compile_program", tmp_path / "none.pt", tmp_path / "made.pt", 2)
    assert done.returncode == 1 and "none.pt" in done.stderr


def test_engine_with_the_runtime_alone(built, program, tmp_path):
    model, compiled = program
    (engine,) = tv.engines(compiled)
    engine.save(tmp_path / "net.vke")
    done = run(built / "run_engine", tmp_path / "net.vke", 3)
    assert done.returncode == 0, done.stderr
    (name,) = (output["name"] for output in engine.info()["outputs"])
    want = model(torch.ones(3, 3, 8, 8)).sum().item()
    assert float(numbers(done.stdout)[name]) == pytest.approx(want, rel=1e-4, abs=1e-4)
    done = run(built / "run_engine", tmp_path / "net.vke", 5)
    assert done.returncode == 1 and "got 5, want 1 to 4" in done.stderr
    engine.save(tmp_path / "stripped.vke", strip_weights=True)
    done = run(built / "run_engine", tmp_path / "stripped.vke", 3)
    assert done.returncode == 1 and "has no weights" in done.stderr


def libraries(binary):
    """Names of what the loader finds for it, to where."""
    lines = run("ldd", binary).stdout.splitlines()
    return dict(line.split()[0::2][:2] for line in lines if "=>" in line)


def test_what_the_applications_load(built):
    alone, with_torch = libraries(built / "run_engine"), libraries(built / "run_program")
    assert "libvk_runtime.so" in alone and not any("torch" in name for name in alone)
    assert {"libvk_runtime.so", "libtorch_vulkan.so", "libtorch_cpu.so"} <= with_torch.keys()
    for found in (alone, with_torch):
        assert "not" not in found.values(), found
        assert not any(name.startswith(("libpython", "_C", "libvk_compiler")) for name in found)

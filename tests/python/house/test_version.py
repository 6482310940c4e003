"""The version is written in one place, and the libraries run with the torch that they were built
against."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

import torch_vulkan as tv
from torch_vulkan import _native

ROOT = Path(__file__).resolve().parents[3]


def version():
    return re.search(r"project\(\w+ VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def import_beside(torch_version, tmp_path):
    """What `import torch_vulkan` says beside a torch of that version, which has nothing else."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"__version__ = {torch_version!r}\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(tv.__file__).parents[1]}"}
    done = subprocess.run([sys.executable, "-c", "import torch_vulkan"], env=environment,
                          capture_output=True, text=True, timeout=60)
    return done.stderr.strip().splitlines()[-1]


def test_every_part_has_the_version_of_the_project():
    assert tv.__version__ == version()
    vkexec = Path(tv.__file__).parent / "bin" / "vkexec"
    printed = subprocess.run([vkexec, "--version"], capture_output=True, text=True).stdout
    assert printed.split() == ["vkexec", version()]


def test_no_second_place_has_it():
    files = [ROOT / name for name in ("setup.py", "setup.cfg", "pyproject.toml", "Makefile",
                                      "Dockerfile", "CMakePresets.json")]
    for folder in ("runtime", "csrc", "converters", "python", "integrations", "cmake", "scripts",
                   "docs/man", "examples", "benchmarks"):
        files += (f for f in (ROOT / folder).rglob("*")
                  if f.suffix in {".h", ".cpp", ".py", ".in", ".cmake", ".txt", ".sh", ".1", ".cfg",
                                  ".toml"}
                  and "lib" not in f.relative_to(ROOT).parts)
    text = re.compile(rf"(?<![\d.]){re.escape(version())}(?![\d.])")
    assert len(files) > 300
    assert [f for f in files if text.search(f.read_text())] == []


def test_another_torch_is_refused_before_its_modules_are_needed(tmp_path):
    error = import_beside("2.99.1+cpu", tmp_path)
    assert error.startswith(f"ImportError: torch_vulkan {version()} is built against torch "
                            f"{_native.C.torch_version}, and torch 2.99.1+cpu is here: "), error
    assert re.search(r"install torch==\d+\.\d+\.\*$", error), error


def test_another_patch_is_not_refused(tmp_path):
    """The import goes on, to the first thing that this torch lacks."""
    major, minor = torch.__version__.split(".")[:2]
    assert "module 'torch' has no attribute" in import_beside(f"{major}.{minor}.99", tmp_path)


def test_it_is_built_against_the_torch_that_is_here():
    assert torch.__version__.split("+")[0] == _native.C.torch_version

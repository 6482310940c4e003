"""The version is written in one place, and the libraries run with the torch that they were built
against."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_vulkan as tv
from torch_vulkan import _native

from workloads.patience import patience

ROOT = Path(__file__).resolve().parents[3]


def version():
    return re.search(r"project\(\w+ VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def import_beside(torch_version, tmp_path):
    """What `import torch_vulkan` says beside a torch of that version, which has nothing else."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"__version__ = {torch_version!r}\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(tv.__file__).parents[1]}"}
    done = subprocess.run([sys.executable, "-c", "import torch_vulkan"], env=environment,
                          capture_output=True, text=True, timeout=patience(60))
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


def set_up_beside(torch_version, tmp_path):
    """What setup.py says where that torch is installed."""
    about = tmp_path / f"torch-{torch_version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch\nVersion: {torch_version}\n")
    done = subprocess.run([sys.executable, "setup.py", "--name"], cwd=ROOT, capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, text=True,
                          timeout=patience(60))
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]


def bounds():
    """(2, 11), (2, 16) of "torch>=2.11,<2.16" in pyproject.toml."""
    found = re.search(r'"torch>=(\d+)\.(\d+),<(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    first_major, first, major, behind = map(int, found.groups())
    return (first_major, first), (major, behind)


@pytest.mark.parametrize("side", ["before", "first", "last", "behind"])
def test_a_torch_that_nobody_tried_is_refused_where_it_is_built(side, tmp_path):
    """pip asks for no bound with --no-build-isolation, as the README installs it."""
    (major, first), (_, behind) = bounds()
    minor = {"before": first - 1, "first": first, "last": behind - 1, "behind": behind}[side]
    tried = side in ("first", "last")
    assert set_up_beside(f"{major}.{minor}.0", tmp_path) == ((0, "torch-vulkan") if tried else (
        1, f"torch_vulkan is made for torch>={major}.{first},<{major}.{behind}, and torch "
           f"{major}.{minor}.0 is here: install one of those, or move the bound in pyproject.toml "
           "and run the tests"))


def test_the_readme_names_the_versions_that_are_not_refused():
    (major, first), (_, behind) = bounds()
    text = (ROOT / "README.md").read_text()
    assert f"torch that you already have ({major}.{first} to {major}.{behind - 1})" in text


def test_it_is_built_against_the_torch_that_is_here():
    assert torch.__version__.split("+")[0] == _native.C.torch_version

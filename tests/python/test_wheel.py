"""The wheel is self-contained: installed elsewhere, with the source tree out of reach, it runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
x = torch.randn(2, 8)
fast = torch.compile(model, backend="vulkan", options={"min_block_size": 1})
with torch.no_grad():
    torch.testing.assert_close(fast(x), model(x))
import torch_vulkan
from torch_vulkan.compilations import compilations
assert len(compilations()[0].engines) == 1, compilations()
print(torch_vulkan.__file__)
"""

# What a machine with torch has anyway: the C and C++ runtimes, and torch's own libraries.
ALLOWED = re.compile(
    r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|gomp|z)\.so|ld-linux|linux-vdso|"
    r"lib(c10|torch\w*|vk_\w+)\.so|libprotobuf(-lite)?\.so")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """site-packages with the wheel alone, built from a copy of the tree that is deleted."""
    work = tmp_path_factory.mktemp("wheel")
    tree = work / "tree"
    skip = shutil.ignore_patterns(".git", ".venv", "build", "build-*", "lib", "__pycache__",
                                  ".setup")
    shutil.copytree(ROOT, tree, ignore=skip)
    # Below the copy, as it is below this tree, the environment has the paths that ccache knows.
    environment = Path(sys.prefix)
    python = Path(sys.executable)
    if environment == ROOT / ".venv":
        (tree / ".venv").symlink_to(environment)
        python = tree / python.relative_to(ROOT)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", work, tree],
                   check=True)
    pip[0] = sys.executable
    shutil.rmtree(tree)
    (wheel,) = work.glob("*.whl")
    target = work / "site"
    subprocess.run([*pip, "install", "-q", "--no-deps", "--target", target, wheel], check=True)
    return target


def run_elsewhere(installed, program):
    # The editable install's finder must not serve the source tree: only the wheel is on the path.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(installed)
    return subprocess.run([sys.executable, "-c", program], cwd=installed.parent, env=environment,
                          capture_output=True, text=True, timeout=300)


def test_runs_without_the_source_tree(installed):
    done = run_elsewhere(installed, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert str(installed) in done.stdout


def test_links_only_what_it_carries(installed):
    libraries = list((installed / "torch_vulkan").rglob("*.so*"))
    assert len(libraries) >= 4, libraries
    for library in libraries:
        dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True,
                                 check=True).stdout
        for needed in re.findall(r"NEEDED.*\[(.+)\]", dynamic):
            assert ALLOWED.match(needed), f"{library.name} needs {needed}"
            if needed.startswith(("libvk_", "libprotobuf", "libtorch_vulkan")):
                assert (library.parent / needed).exists(), f"{needed} is not in the wheel"
        for path in re.findall(r"R(?:UN)?PATH.*\[(.+)\]", dynamic):
            assert all(p.startswith("$ORIGIN") for p in path.split(":")), f"{library.name}: {path}"


def test_vkexec_is_a_command(installed):
    """It runs without importing the package, and its man page is where `man` looks."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    for arguments, want in ((["--version"], "vkexec 0."), (["--listDevices"], "UUID")):
        done = subprocess.run([installed / "bin" / "vkexec", *arguments], cwd=installed.parent,
                              env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and want in done.stdout, done.stderr
    assert (installed / "share" / "man" / "man1" / "vkexec.1").exists()
    binary = installed / "torch_vulkan" / "bin" / "vkexec"
    libraries = subprocess.run(["ldd", binary], capture_output=True, text=True).stdout
    assert str(installed) in libraries and "not found" not in libraries


def test_applications_build_against_it(installed, tmp_path):
    """find_package(torch_vulkan) finds headers and libraries in the wheel."""
    examples = ROOT / "examples" / "cpp"
    headers = installed / "torch_vulkan" / "include" / "runtime" / "spec"
    assert (headers / "vke_parts.h").exists(), "docs/deployment.md names it"
    for command in (["cmake", "-S", examples, "-B", tmp_path, "-DWITH_TORCH=OFF",
                     f"-DCMAKE_PREFIX_PATH={installed / 'torch_vulkan'}"],
                    ["cmake", "--build", tmp_path]):
        subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run([tmp_path / "run_engine", tmp_path / "missing.vke"], capture_output=True,
                          text=True)
    assert done.returncode == 1 and "missing.vke" in done.stderr
    libraries = subprocess.run(["ldd", tmp_path / "run_engine"], capture_output=True, text=True)
    assert str(installed) in libraries.stdout and "not found" not in libraries.stdout


def test_converters_build_against_it(installed, tmp_path):
    """A user's converter, which includes a header of converters/kit, is built and loaded."""
    source = ROOT / "examples" / "cpp_converter"
    for command in (["cmake", "-S", source, "-B", tmp_path,
                     f"-DCMAKE_PREFIX_PATH={installed / 'torch_vulkan'}"],
                    ["cmake", "--build", tmp_path]):
        subprocess.run(command, check=True, capture_output=True)
    program = (source / "run.py").read_text() + f"\nmain({str(tmp_path / 'grey_converter.so')!r})\n"
    done = run_elsewhere(installed, program.replace('__name__ == "__main__"', "False"))
    assert done.returncode == 0, done.stderr
    assert "operators added: images::grey" in done.stdout

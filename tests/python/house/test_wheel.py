"""The wheel is self-contained: installed elsewhere, with the source tree out of reach, it runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

import torch_vulkan as tv

from test_symbols import foreign_names
from workloads.patience import patience

pytestmark = pytest.mark.slow  # it builds all again; continuous integration runs it for each commit

ROOT = Path(__file__).resolve().parents[3]

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

# What every Linux with a glibc has, and torch's own libraries.
ALLOWED = re.compile(
    r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux|lib(c10|torch_cpu|torch_vulkan|vk_\w+)\.so|"
    r"libprotobuf-lite-[0-9a-f]+\.so")


def without_paths():
    """PYTHONPATH would serve the source tree, and pip hold the wheel for installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def distributions_of(name, found):
    """The distribution and what it requires, itself requiring nothing extra."""
    if name in found:
        return found
    try:
        found[name] = metadata.distribution(name)
    except metadata.PackageNotFoundError:  # for other systems, or other versions of Python
        return found
    for requirement in found[name].requires or []:
        if "extra ==" not in requirement:
            distributions_of(re.match(r"[\w.-]+", requirement)[0], found)
    return found


def clean_environment(folder):
    """A virtual environment with torch and what it requires, by links: no pytest, no pybind11."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for distribution in distributions_of("torch", {}).values():
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            (site / top).symlink_to(distribution.locate_file(top))
    return site


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """As `make wheel` makes it, from a copy of the tree that is deleted."""
    work = tmp_path_factory.mktemp("wheel")
    tree = work / "tree"
    skip = shutil.ignore_patterns(".*", "build", "build-*", "dist", "lib", "__pycache__")
    shutil.copytree(ROOT, tree, ignore=skip)
    tools = ROOT / ".setup"
    tools.mkdir(exist_ok=True)
    (tree / ".setup").symlink_to(tools)
    # Below the copy, as it is below this tree, the environment has the paths that ccache knows.
    environment = Path(sys.prefix)
    python = Path(sys.executable)
    if environment == ROOT / ".venv":
        (tree / ".venv").symlink_to(environment)
        python = tree / python.relative_to(ROOT)
    subprocess.run([python, tree / "scripts" / "make_wheel.py", work], check=True)
    shutil.move(tree / "build-wheel" / "compile_commands.json", work)
    shutil.rmtree(tree)
    (wheel,) = work.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel):
    """site-packages of an environment with torch and the wheel alone."""
    site = clean_environment(wheel.parent / "clean")
    pip = [sys.executable, "-m", "pip", "--python", wheel.parent / "clean"]
    subprocess.run([*pip, "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-index",
                    wheel], check=True, env=without_paths())
    return site


def run_elsewhere(installed, *arguments):
    """The clean environment's Python, where no tool that builds is found."""
    commands = installed.parents[2] / "bin"
    for tool in ("cc", "c++", "gcc", "g++", "clang", "cmake", "ninja", "ld", "pip",
                 "glslangValidator"):
        assert shutil.which(tool, path=str(commands)) is None
    environment = {**without_paths(), "PATH": str(commands)}
    return subprocess.run([commands / "python", *arguments], cwd=installed.parents[3],
                          env=environment, capture_output=True, text=True, timeout=patience(300))


def test_its_name_and_metadata_say_where_it_runs(wheel, installed):
    version = tv.__version__
    assert re.match(rf"torch_vulkan-{re.escape(version)}-cp3\d+-cp3\d+-manylinux_2_\d+_\w+\.whl$",
                    wheel.name), wheel.name
    about = (installed / f"torch_vulkan-{version}.dist-info" / "METADATA").read_text()
    assert re.findall("^Requires-Dist: ([^;\n]+)$", about, re.MULTILINE) == [
        "torch==" + ".".join(torch.__version__.split(".")[:2]) + ".*"]


def test_its_files_are_optimised(wheel):
    """With -O2 or better: the last level counts."""
    commands = json.loads((wheel.parent / "compile_commands.json").read_text())
    shipped = {entry["file"]: entry["command"] for entry in commands
               if "/benchmarks/" not in entry["file"]}
    assert len(shipped) > 300
    assert [file for file, command in shipped.items()
            if re.findall(r"(?<=\s)-O(\S+)", command)[-1:] not in (["2"], ["3"])] == []


def test_runs_the_quickstart_without_compilers_and_the_source_tree(installed, tmp_path):
    program = shutil.copy(ROOT / "examples" / "quickstart.py", tmp_path)
    done = run_elsewhere(installed, program)
    assert done.returncode == 0 and "same as eager" in done.stdout, done.stderr


def test_its_engines_run(installed):
    done = run_elsewhere(installed, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert str(installed) in done.stdout


def test_links_only_what_it_carries(installed):
    binaries = [*installed.glob("torch_vulkan*/**/*.so*"), installed / "torch_vulkan/bin/vkexec"]
    assert len(binaries) == 7, binaries
    carried = {binary.name for binary in binaries}
    for binary in binaries:
        dynamic = subprocess.run(["readelf", "-d", binary], capture_output=True, text=True,
                                 check=True).stdout
        for needed in re.findall(r"NEEDED.*\[(.+)\]", dynamic):
            assert ALLOWED.match(needed), f"{binary.name} needs {needed}"
            if needed.startswith(("libvk_", "libprotobuf", "libtorch_vulkan")):
                assert needed in carried, f"{needed} is not in the wheel"
        for path in re.findall(r"R(?:UN)?PATH.*\[(.+)\]", dynamic):
            assert all(p.startswith("$ORIGIN") for p in path.split(":")), f"{binary.name}: {path}"


def test_shows_no_names_but_its_own(installed):
    """Not even protobuf's, which is a library of its own here."""
    libraries = list(installed.glob("torch_vulkan*/**/*.so*"))
    assert len(libraries) == 6, libraries
    assert {library.name: names for library in libraries if (names := foreign_names(library))} == {}


def test_vkexec_is_a_command(installed):
    """It runs without importing the package, and its man page is where `man` looks."""
    prefix = installed.parents[2]
    for arguments, want in ((["--version"], "vkexec 0."), (["--listDevices"], "UUID")):
        done = subprocess.run([prefix / "bin" / "vkexec", *arguments], cwd=prefix,
                              capture_output=True, text=True)
        assert done.returncode == 0 and want in done.stdout, done.stderr
    assert (prefix / "share" / "man" / "man1" / "vkexec.1").exists()
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
    done = run_elsewhere(installed, "-c", program.replace('__name__ == "__main__"', "False"))
    assert done.returncode == 0, done.stderr
    assert "operators added: images::grey" in done.stdout

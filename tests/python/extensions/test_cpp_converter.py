"""tv.load_library: examples/cpp_converter, built as a user would, and loaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import torch_vulkan as tv

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "cpp_converter"


def build(source, folder):
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    for command in (["cmake", "-S", source, "-B", folder, *generator, *launcher,
                     f"-DCMAKE_PREFIX_PATH={tv.cmake_prefix_path}"],
                    ["cmake", "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True,
                              env=os.environ | {"CCACHE_NOHASHDIR": "1"})
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "grey_converter.so"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")
    return build(EXAMPLE, tmp_path_factory.mktemp("grey"))


def python(program, *arguments):
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)],
                          capture_output=True, text=True)


def test_example(library):
    done = subprocess.run([sys.executable, EXAMPLE / "run.py", library], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    added, difference = done.stdout.splitlines()
    assert added == "operators added: images::grey"
    assert float(difference.removeprefix("difference: ")) < 1e-5


# Runs the operator alone, of a library, with a cache; prints a pixel and the hits.
PROGRAM = """
import runpy, sys, torch, torch_vulkan as tv
grey = runpy.run_path(sys.argv[1])["grey"]
tv.load_library(sys.argv[2])
f = torch.compile(lambda t: grey(t, False), backend="vulkan", options={
    "min_block_size": 1, "engine_cache_dir": sys.argv[3]})
print(round(f(torch.full((1, 3, 2, 2), 1.0))[0, 0, 0, 0].item(), 3), tv.cache.stats()["hit"])
"""


@pytest.mark.slow
def test_the_cache_tells_libraries_apart(library, tmp_path):
    def run(path):
        done = python(PROGRAM, EXAMPLE / "run.py", path, tmp_path / "cache")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    source = tmp_path / "brighter"
    shutil.copytree(EXAMPLE, source)
    text = (source / "grey_converter.cpp").read_text()
    (source / "grey_converter.cpp").write_text(text.replace("0.299 *", "0.799 *"))
    other = build(source, tmp_path / "built")
    assert run(library) == "1.0 0"
    assert run(other) == "1.5 0"
    assert run(library) == "1.0 1"


@pytest.mark.slow
def test_reasons_and_shader_errors(library, tmp_path):
    program = """
import runpy, sys, torch, torch_vulkan as tv
grey = runpy.run_path(sys.argv[1])["grey"]
tv.load_library(sys.argv[2])
report = tv.dry_run(lambda t: grey(t.relu(), False), [torch.ones(1, 3, 2)], min_block_size=1)
print(report.data["operators"][0]["reason"])
"""
    done = python(program, EXAMPLE / "run.py", library)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "it takes images as [n, 3, h, w]"
    source = tmp_path / "bad"
    shutil.copytree(EXAMPLE, source)
    text = (source / "grey_converter.cpp").read_text()
    (source / "grey_converter.cpp").write_text(text.replace("grey_store(i, luma)", "grey_store(i)"))
    done = python(PROGRAM, EXAMPLE / "run.py", build(source, tmp_path / "built"), tmp_path)
    assert "was not built and runs natively" in done.stderr
    assert "[images_grey] the shader does not compile" in done.stderr
    assert "line 12: 'grey_store' : no matching overloaded function" in done.stderr
    assert "12 |   grey_store(i);" in done.stderr and done.stdout.startswith("1.0 ")


def test_what_cannot_be_loaded(library, tmp_path):
    with pytest.raises(ValueError, match="cannot read"):
        tv.load_library(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(ValueError, match="load_library"):
        tv.load_library(tmp_path / "text.so")
    shutil.copy(library, tmp_path / "again.so")
    program = ("import sys, torch_vulkan as tv\n"
               "assert tv.load_library(sys.argv[1]) == ['images::grey']\n"
               "assert tv.load_library(sys.argv[1]) == []\n"
               "try: tv.load_library(sys.argv[2])\n"
               "except ValueError as error: print(error)\n")
    done = python(program, library, tmp_path / "again.so")
    assert done.returncode == 0, done.stderr
    assert "there is a kernel of this name already" in done.stdout
    assert "[images::grey] has a converter already" in done.stdout


RULE = """
#include <converters/kit/pointwise_rules.h>
static const tv::RegisterPointwise rules({{.op = "tests::exp", .formula = {{.on_float = "$0"}}}});
"""


@pytest.mark.slow
def test_a_pointwise_function_that_exists(library, tmp_path):
    source = tmp_path / "rule"
    shutil.copytree(EXAMPLE, source)
    (source / "grey_converter.cpp").write_text(RULE)
    done = python("import sys, torch_vulkan as tv\ntry: tv.load_library(sys.argv[1])\n"
                  "except ValueError as error: print(error)\n",
                  build(source, tmp_path / "built"))
    assert done.returncode == 0, done.stderr
    assert "there is a row called exp already" in done.stdout

"""ONNX Runtime's provider from C++ and C: programs on the runtime's own headers and the library of
its Python package."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy
import onnx
import onnxruntime
import provider_tests
import pytest

from onnx_models import linear
from workloads.patience import patience

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = [*(Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")]


def headers() -> Path | None:
    """Where the build found them."""
    found = [ROOT / ".setup/onnxruntime/usr/include/onnxruntime"]
    if (cache := ROOT / "build" / "CMakeCache.txt").exists():
        named = re.search(r"^ONNXRUNTIME_INCLUDE_DIR:\w+=(.+)$", cache.read_text(), re.M)
        found += [Path(named[1])] if named else []
    return next((p for p in found if (p / "onnxruntime_cxx_api.h").exists()), None)


pytestmark = [
    pytest.mark.skipif(not provider_tests.is_built(), reason="the provider is not built"),
    pytest.mark.skipif(not (headers() and LIBRARIES and shutil.which("g++")),
                       reason="ONNX Runtime's headers or library, or g++, are not there")]


def built(source, folder):
    path = folder / source.stem
    library = folder / "libonnxruntime.so.1"  # as it calls itself
    library.symlink_to(LIBRARIES[0])
    compiler = ["gcc", "-std=c11"] if source.suffix == ".c" else ["g++", "-std=c++20"]
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", f"-isystem{headers()}",
                    source, library, f"-Wl,-rpath,{folder}", "-o", path], check=True)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return built(Path(__file__).parent / "provider_cpp" / "session.cpp",
                 tmp_path_factory.mktemp("program"))


def run(program, model, option, value):
    return subprocess.run([program, provider_tests.vulkan.get_library_path(), model, option, value],
                          capture_output=True, text=True, timeout=patience(120))


def test_a_session(program, tmp_path):
    made, reference = linear()
    onnx.save(made, tmp_path / "net.onnx")
    done = run(program, tmp_path / "net.onnx", "builder_optimization_level", "0")
    assert done.returncode == 0, done.stderr
    *lines, junk, empty = done.stdout.splitlines()
    assert junk == empty == "unsupported" and len(lines) == 4
    for rows, line in zip((1, 5, 3, 5), lines, strict=True):
        x = (numpy.arange(rows * 8) % 7 - 3).astype(numpy.float32).reshape(rows, 8)
        got = numpy.float32(line.split()).reshape(rows, -1)
        numpy.testing.assert_allclose(got, reference(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("option, value, says", [
    ("fp16_enabel", "1", "did you mean 'fp16_enable'"), ("dla_enable", "1", "no such cores"),
    ("builder_optimization_level", "9", "optimization_level: got 9")])
def test_an_option_that_is_wrong(program, tmp_path, option, value, says):
    onnx.save(linear()[0], tmp_path / "net.onnx")
    done = run(program, tmp_path / "net.onnx", option, value)
    assert done.returncode == 1 and says in done.stderr, done.stderr


def test_a_session_in_c(tmp_path):
    program = built(Path(__file__).parent / "provider_cpp" / "session.c", tmp_path)
    made, reference = linear()
    onnx.save(made, tmp_path / "net.onnx")
    done = run(program, tmp_path / "net.onnx", "builder_optimization_level", "0")
    assert done.returncode == 0, done.stderr
    got = numpy.float32(done.stdout.split()).reshape(2, -1)
    numpy.testing.assert_allclose(got, reference(numpy.ones((2, 8), numpy.float32)), rtol=1e-4,
                                  atol=1e-4)
    done = run(program, tmp_path / "net.onnx", "fp16_enabel", "1")
    assert done.returncode == 1 and "did you mean 'fp16_enable'" in done.stderr, done.stderr


def test_a_model_that_is_none(program, tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"junk")
    assert run(program, tmp_path / "net.onnx", "device_id", "0").returncode == 1


def test_the_example(tmp_path):
    example = built(ROOT / "examples" / "onnxruntime" / "run_session.cpp", tmp_path)
    library = provider_tests.vulkan.get_library_path()
    made, reference = linear()
    onnx.save(made, tmp_path / "net.onnx")
    done = subprocess.run([example, library, tmp_path / "net.onnx", "3"], capture_output=True,
                          text=True, timeout=patience(120))
    assert done.returncode == 0, done.stderr
    name, total = done.stdout.split(": ")
    assert name == "y"
    numpy.testing.assert_allclose(float(total), reference(numpy.ones((3, 8))).sum(), rtol=1e-4)
    done = subprocess.run([example, library, tmp_path / "none.onnx"], capture_output=True,
                          text=True)
    assert done.returncode == 1 and "none.onnx" in done.stderr

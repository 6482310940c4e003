"""The wheel onnxruntime-ep-vulkan, as `make onnxruntime-provider` makes it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import provider_tests
import pytest

from onnx_models import linear

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, ROOT / "scripts" / "make_provider_wheel.py", out], check=True)
    (made,) = out.glob("*.whl")
    return made


def test_its_name_and_contents(wheel):
    assert wheel.name.startswith("onnxruntime_ep_vulkan-") and "-py3-none-manylinux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "onnxruntime_ep_vulkan/libonnxruntime_providers_vulkan.so" in names
    taken = {Path(name).name.partition("-")[0] for name in names if ".libs/" in name}
    assert {"libvk_compiler", "libvk_runtime"} <= taken
    metadata = next(name for name in names if name.endswith("/METADATA"))
    assert "Requires-Dist" not in zipfile.ZipFile(wheel).read(metadata).decode()


@pytest.mark.parametrize("first", ["", "import torch_vulkan; torch_vulkan.devices()"],
                         ids=["alone", "beside torch_vulkan"])
def test_it_runs_where_it_is_installed(wheel, first, tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                    "--no-deps", "--no-index", "--target", tmp_path / "site", wheel], check=True)
    made, _ = linear()
    onnx.save(made, tmp_path / "net.onnx")
    code = f"""
import sys
{first}
sys.path.insert(0, {str(tmp_path / "site")!r})
import numpy, onnxruntime, onnxruntime_ep_vulkan as vulkan
onnxruntime.register_execution_provider_library(vulkan.get_ep_name(), vulkan.get_library_path())
x = numpy.ones((3, 8), numpy.float32)
options = dict(min_subgraph_size=1, builder_optimization_level=0)
(y,) = onnxruntime.InferenceSession({str(tmp_path / "net.onnx")!r}, enable_fallback=0, providers=[
    (vulkan.get_ep_name(), options), "CPUExecutionProvider"]).run(None, dict(x=x))
(want,) = onnxruntime.InferenceSession({str(tmp_path / "net.onnx")!r}, providers=[
    "CPUExecutionProvider"]).run(None, dict(x=x))
numpy.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
print(len(dict.fromkeys(line.split()[-1] for line in open("/proc/self/maps")
                        if "libvk_compiler" in line)))
"""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("2\n" if first else "1\n")

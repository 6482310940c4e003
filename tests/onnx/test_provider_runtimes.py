"""ONNX Runtime's provider in older releases of ONNX Runtime than the one that is installed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy
import onnx
import provider_tests
import pytest
from test_provider import PACKAGE, detector, random

from onnx_models import linear
from workloads.patience import patience

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")]

# These releases know a plugin by its devices alone, not by its name in `providers=`.
PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:3]
import numpy, onnxruntime
import onnxruntime_ep_vulkan as vulkan
assert onnxruntime.__version__ == sys.argv[3], onnxruntime.__file__
folder = sys.argv[4]
NAME = vulkan.get_ep_name()
onnxruntime.register_execution_provider_library(NAME, vulkan.get_library_path())
device = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME)

def options(alone, **more):
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 3
    if alone:
        made.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    made.add_provider_for_devices([device], dict(
        builder_optimization_level="0", min_subgraph_size="1", **more))
    return made

def run(path, settings):
    feed = dict(numpy.load(folder + "/feed.npz"))
    opened = onnxruntime.InferenceSession(path, settings)
    return opened.run(None, {i.name: feed[i.name] for i in opened.get_inputs()})

net, compiled = folder + "/net.onnx", folder + "/net_ctx.onnx"
(want,) = run(net, onnxruntime.SessionOptions())
(got,) = run(net, options(True))
numpy.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
onnxruntime.ModelCompiler(options(False), net, embed_compiled_data_into_model=True).compile_to_file(
    compiled)
(again,) = run(compiled, options(True))
numpy.testing.assert_array_equal(again, got)
(part,) = run(folder + "/detector.onnx", options(False))
(whole,) = run(folder + "/detector.onnx", onnxruntime.SessionOptions())
numpy.testing.assert_allclose(part, whole, rtol=1e-4, atol=1e-5)
try:
    run(net, options(False, fp16_enabel="1"))
except Exception as error:
    print(str(error).splitlines()[0])
"""


@pytest.fixture(scope="module")
def releases():
    made = subprocess.run([ROOT / "scripts" / "onnxruntime_versions.sh"], capture_output=True,
                          text=True)
    if made.returncode:
        pytest.skip(made.stderr.strip())
    return dict(line.split("\t") for line in made.stdout.splitlines())


@pytest.mark.parametrize("version", ["1.23.2", "1.24.4"])
def test_sessions_contexts_and_options(version, releases, tmp_path):
    onnx.save(linear()[0], tmp_path / "net.onnx")
    onnx.save(detector(), tmp_path / "detector.onnx")
    numpy.savez(tmp_path / "feed.npz", x=random(1, 8), logits=random(1, 1, 12, seed=3))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, releases[version], PACKAGE.parent, version, tmp_path],
        capture_output=True, text=True, timeout=patience(300), env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "unknown option 'fp16_enabel'; did you mean 'fp16_enable'" in done.stdout

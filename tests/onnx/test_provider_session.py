"""What making a session of ONNX Runtime's provider takes."""

import numpy
import onnx
import provider_tests
import pytest
from onnx import helper
from test_provider import in_process, random

from onnx_models import model, tensor, weight

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")

OPENED = """
import os
os.dup2(1, 2)  # the runtime logs there
os.environ["TORCH_VULKAN_LOG"] = "debug"
register()
options = dict(builder_optimization_level=0, min_subgraph_size=1, engine_cache_path=sys.argv[2])
opened = onnxruntime.InferenceSession(sys.argv[1], enable_fallback=0,
                                      providers=[(NAME, options), "CPUExecutionProvider"])
x = numpy.load(sys.argv[3])
numpy.save(sys.argv[4], opened.run(None, {"x": x})[0])
"""


def test_what_the_driver_has_compiled_is_made_once(tmp_path, device):
    """Helpers make pipelines once more, on devices of their own: only to compile."""
    if device.type != "cpu":
        pytest.skip("only what CPU drivers compile is logged")
    sizes = [(64, 128), (128, 192), (192, 96)]  # sums that one kernel each computes
    weights = [random(*size, seed=i) for i, size in enumerate(sizes)]
    names = ["x", "h0", "h1", "y"]
    made = model([helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]])
                  for i in range(3)],
                 [tensor("x", [32, 64])], [tensor("y", [32, 96])],
                 [weight(f"w{i}", w) for i, w in enumerate(weights)])
    onnx.save(made, tmp_path / "net.onnx")
    x = random(32, 64, seed=9)
    numpy.save(tmp_path / "x.npy", x)

    def kernels():
        printed = in_process(OPENED, tmp_path / "net.onnx", tmp_path / "cache", tmp_path / "x.npy",
                             tmp_path / "y.npy")
        want = x @ weights[0] @ weights[1] @ weights[2]
        numpy.testing.assert_allclose(numpy.load(tmp_path / "y.npy"), want, rtol=1e-4, atol=1e-2)
        return [line.split(":")[0] for line in printed.splitlines() if "[driver]" in line]

    kernels()  # compiles
    made = kernels()
    assert len(made) >= 3 and len(set(made)) == len(made), made

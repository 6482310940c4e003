"""polygraphy run net.onnx --onnxrt --vulkan: the plugin through polygraphy's own command."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("polygraphy")
pytest.importorskip("pydantic")

import numpy as np  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from marks import turns  # noqa: E402
from workloads.patience import patience  # noqa: E402

MAIN = "import sys; from polygraphy.tools import main; sys.exit(main())"


def model(product="MatMul"):
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Relu", ["x"], ["hidden"], "act"),
             helper.make_node(product, ["hidden", "w"], ["scores"], "product"),
             helper.make_node("Softmax", ["scores"], ["y"], "last")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
        [numpy_helper.from_array(rng.normal(size=(7, 5)).astype("float32"), "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    if "vulkan" not in {point.name for point in entry_points(group="polygraphy.run.plugins")}:
        pytest.skip("the package's entry points are not registered: python3 setup.py -q egg_info")
    path = tmp_path_factory.mktemp("polygraphy") / "net.onnx"
    onnx.save(model(), path)
    return path


def polygraphy(*arguments, code=0, cwd=None):
    done = subprocess.run([sys.executable, "-c", MAIN, *map(str, arguments)], capture_output=True,
                          text=True, timeout=patience(300), cwd=cwd, env={**os.environ})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


ONCE = ("--input-shapes", "x:[3,7]", "--vulkan-options", "optimization_level=0")


@turns(3, group="comparisons")
def test_compare_with_onnxruntime(net):
    said = polygraphy("run", net, "--onnxrt", "--vulkan", *ONCE, "--validate")
    assert "1 engines; 0 nodes run natively" in said
    assert "Accuracy Summary" in said and "vulkan-runner" in said and "PASSED" in said


@turns(3, group="comparisons")
def test_all_tensors_marked_and_saved(net, tmp_path):
    """What was saved is loaded and compared again, and holds every tensor."""
    saved = tmp_path / "vulkan.json"
    polygraphy("run", net, "--vulkan", "--onnx-outputs", "mark", "all", "--save-outputs", saved,
               "--save-inputs", tmp_path / "in.json", *ONCE)
    text = json.dumps(json.loads(saved.read_text()))
    assert all(f'"{name}"' in text for name in ("hidden", "scores", "y"))
    said = polygraphy("run", net, "--onnxrt", "--onnx-outputs", "mark", "all", "--load-outputs",
                      saved, "--load-inputs", tmp_path / "in.json")
    assert "PASSED" in said and "scores" in said


@turns(3, group="comparisons")
def test_a_difference_fails(net):
    said = polygraphy("run", net, "--onnxrt", "--vulkan", "--input-shapes", "x:[3,7]", "--atol",
                      "1e-12", "--rtol", "1e-12", "--vulkan-options", "fp16=true",
                      "optimization_level=0", code=1)
    assert "FAILED" in said


@turns(3, group="comparisons")
def test_settings_of_a_file(net, tmp_path):
    (tmp_path / "net.yaml").write_text("optimization_level: 0\nfp16: true\n")
    polygraphy("run", net, "--vulkan", "--input-shapes", "x:[3,7]", "--vulkan-config",
               tmp_path / "net.yaml")
    said = polygraphy("run", net, "--vulkan", "--input-shapes", "x:[3,7]", "--vulkan-options",
                      "optimisation_level=0", code=1)
    assert "did you mean 'optimization_level'" in said
    assert "want NAME=VALUE" in polygraphy("run", net, "--vulkan", "--vulkan-options", "fp16",
                                           code=1)


@turns(3, group="comparisons")
def test_a_script_that_it_generates(net, tmp_path):
    script = tmp_path / "run.py"
    polygraphy("run", net, "--onnxrt", "--vulkan", *ONCE, "--gen-script", script)
    assert "VulkanRunner" in script.read_text()
    done = subprocess.run([sys.executable, script], capture_output=True, text=True,
                          timeout=patience(300))
    assert done.returncode == 0 and "PASSED" in done.stdout + done.stderr


def test_the_plugin_loads_no_torch():
    code = ("import sys, torch_vulkan_polygraphy as p; assert p.arguments(); "
            "assert 'torch' not in sys.modules and 'torch_vulkan' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=patience(120))

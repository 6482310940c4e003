"""tv.compare of ONNX models: which tensor of a file an engine computes less exactly."""

import json
import math
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import torch_vulkan as tv  # noqa: E402
from torch_vulkan._accuracy import comparison  # noqa: E402

HALF = {"enabled_precisions": {torch.float32, torch.float16}, "optimization_level": 0}


def model():
    """A product whose sums float16 cannot hold, between others."""
    rng = np.random.default_rng(3)
    weights = {"w": rng.normal(size=(8, 8)), "big": 3e4 * rng.uniform(1, 2, size=(8, 8)),
               "small": 1e-6 * rng.uniform(1, 2, size=(8, 8))}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "plain"),
             helper.make_node("MatMul", ["a", "big"], ["b"], "overflows"),
             helper.make_node("MatMul", ["b", "small"], ["c"], "shrinks"),
             helper.make_node("Tanh", ["c"], ["d"], "tanh"),
             helper.make_node("ArgMax", ["d"], ["best"], "best", axis=1),
             helper.make_node("Add", ["d", "a"], ["y"], "last")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8]),
         helper.make_tensor_value_info("best", TensorProto.INT64, ["n", 1])],
        [numpy_helper.from_array(value.astype("float32"), name)
         for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def batches(count=2):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(3 + i, 8)).astype("float32") for i in range(count)]


@pytest.mark.parametrize("reference", ["onnxruntime", "torch_vulkan", None])
def test_the_worst_tensor_is_first(reference, tmp_path):
    found = tv.compare(model(), HALF, batches(), reference=reference)
    assert found.count == 2 and found.layers[0]["name"] == "b"
    assert {row["name"] for row in found.layers} == {"a", "b", "c", "d", "y"}
    assert found.layers[0]["node"] == "overflows" and found.layers[0]["harm"] == math.inf
    assert [row["name"] for row in found.results] == ["y", "best"]
    harms = [row["harm"] for row in found.layers]
    assert harms == sorted(harms, reverse=True)
    assert "^overflows$" in found.excluded(1)
    data = json.loads(found.to_json(tmp_path / "found.json"))
    assert data["layers"][0]["max_error"] == "inf" and data["layers"][0]["nodes"] == ["overflows"]
    assert "autocast_excluded_nodes" in str(found)
    found.save(tmp_path / "harm.svg")
    picture = ET.parse(tmp_path / "harm.svg").getroot()
    bars = picture.findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 5 and float(bars[0].get("width")) == 560
    with pytest.raises(ValueError, match="want .svg"):
        found.save(tmp_path / "harm.png")


def test_what_it_excludes_helps():
    found = tv.compare(model(), HALF, batches())
    better = tv.compare(model(), {**HALF, "autocast_excluded_nodes": [
        *found.excluded(1), "^shrinks$"]}, batches())
    assert better.results[0]["snr_db"] > 40 > found.results[0]["snr_db"]


def test_figures_are_those_of_the_tensors(tmp_path):
    onnx.save(model(), tmp_path / "net.onnx")
    (x,) = batches(1)
    session = tv.onnx.compile(tmp_path / "net.onnx", **HALF)
    found = tv.compare(tmp_path / "net.onnx", session, [{"x": x}])
    want = onnxruntime.InferenceSession(str(tmp_path / "net.onnx")).run(["y"], {"x": x})[0]
    got = session.run(["y"], {"x": x})[0]
    want, got = want.astype("float64"), got.astype("float64")
    snr = -10 * math.log10(np.square(got - want).sum() / np.square(want).sum())
    assert found.results[0]["snr_db"] == pytest.approx(snr, abs=0.3)
    assert found.results[0]["max_error"] == pytest.approx(np.abs(got - want).max(), rel=0.02)


def test_exact_engines_do_no_harm():
    found = tv.compare(model(), {"optimization_level": 0}, [tuple(batches(1))])
    assert all(row["snr_db"] > 100 for row in found.layers + found.results)
    assert found.results[1]["max_error"] == 0


@pytest.mark.parametrize("given, program, data, more, message", [
    (model, HALF, [], {}, "inputs: there are none"),
    (model, 3, [1], {}, "got int, want what tv.onnx.compile returned"),
    (model, HALF, [{"z": 1}], {}, r"got inputs \['z'\], want \['x'\]"),
    (model, HALF, [1], {"reference": "trt"}, "got 'trt', want 'onnxruntime' or 'torch_vulkan'"),
    (lambda: 3, HALF, [1], {}, "got int, want a torch.nn.Module, or a path"),
    (lambda: torch.nn.Linear(2, 2).eval(), {}, [torch.ones(1, 2)], {"reference": "onnxruntime"},
     "compared with PyTorch"),
])
def test_bad_arguments(given, program, data, more, message):
    with pytest.raises(ValueError, match=message):
        tv.compare(given(), program, data, **more)


def test_an_operand_that_is_nan_is_told():
    """Whichever of a node's operands it is."""
    found = {name: comparison._Differences() for name in "abc"}
    for name, value in zip("abc", (1.1, math.nan, 1.0), strict=True):
        found[name].add(torch.ones(2), torch.full((2,), value))
    shown = SimpleNamespace(tensors={"c": ("n", ["a", "b"])}, nodes={"c": []}, results=[])
    (row,) = comparison._comparison_of_file(1, shown, found).layers
    assert math.isnan(row["input_snr_db"]) and math.isnan(row["harm"])

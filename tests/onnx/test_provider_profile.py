"""Layers of engines in ONNX Runtime's own profile."""

import json

import numpy
import onnxruntime
import provider_tests
import pytest
from onnx import TensorProto, helper
from provider_tests import NAME, register
from test_provider import random

from onnx_models import model, tensor, weight

pytestmark = [
    pytest.mark.skipif(not provider_tests.is_built(), reason="the provider is not built "
                       "(cmake -DTV_ONNXRUNTIME=ON), as its headers are not there"),
    pytest.mark.skipif(tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 25),
                       reason="providers write into profiles from 1.25 on")]
W = random(16, 16)


def profiled(tmp_path):
    """A session that writes a profile: rows of softmax(x w), picked by i."""
    made = model([helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
                  helper.make_node("Softmax", ["h"], ["s"], name="soft"),
                  helper.make_node("Gather", ["s", "i"], ["y"], name="pick")],
                 [tensor("x", [40, 16]), tensor("i", [3], TensorProto.INT64)],
                 [tensor("y", [3, 16])], [weight("w", W)])
    register()
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    return onnxruntime.InferenceSession(
        made.SerializeToString(), options, enable_fallback=0,
        providers=[(NAME, {"builder_optimization_level": 0, "min_subgraph_size": 1})])


def call(opened, index):
    x = random(40, 16, seed=1)
    (y,) = opened.run(None, {"x": x, "i": numpy.array(index)})
    h = numpy.exp(x @ W - (x @ W).max(1, keepdims=True))
    numpy.testing.assert_allclose(y, (h / h.sum(1, keepdims=True))[index], rtol=1e-5, atol=1e-6)


def test_each_layer_of_each_run_lies_in_its_node(tmp_path):
    opened = profiled(tmp_path)
    for index in ([1, 2, 3], [39, 0, 7]):
        call(opened, index)
    events = json.loads(open(opened.end_profiling()).read())
    nodes = [event for event in events if event["cat"] == "Node"]
    layers = [event for event in events if event["cat"] == "Kernel"]
    assert len(nodes) == 2 and len(layers) % 2 == 0
    runs = layers[:len(layers) // 2], layers[len(layers) // 2:]
    for node, of_run in zip(nodes, runs, strict=True):
        names = " ".join(layer["name"] for layer in of_run)
        assert all(name in names for name in ("product", "soft", "pick"))
        assert all(layer["args"]["provider"] == NAME and layer["args"]["tactic"]
                   for layer in of_run)
        at = node["ts"] - 1  # microseconds are rounded
        for layer in of_run:
            assert layer["ts"] >= at
            at = layer["ts"]
        assert at + of_run[-1]["dur"] <= node["ts"] + node["dur"] + 10


def test_runs_after_the_profile_and_wrong_ones_in_it(tmp_path):
    opened = profiled(tmp_path)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument,
                       match="index out of range"):
        opened.run(None, {"x": random(40, 16), "i": numpy.array([1, 2, 300])})
    call(opened, [4, 5, 6])
    opened.end_profiling()
    call(opened, [0, 0, 1])

"""autocast_excluded_nodes with the cache of engines: names decide, so an engine of other names is
not taken, and one of the same names is."""

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import torch_vulkan as tv  # noqa: E402


def model(first, second, out="y"):
    """x → two products, of which float16 cannot hold what lies between."""
    weights = {"big": np.full((4, 4), 3e4, "float32"), "small": np.full((4, 4), 1e-5, "float32")}
    nodes = [helper.make_node("MatMul", ["x", "big"], ["a"], first),
             helper.make_node("MatMul", ["a", "small"], [out], second)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_names_of_excluded_nodes_are_part_of_the_key(tmp_path):
    settings = {"enabled_precisions": {torch.float32, torch.float16}, "optimization_level": 0,
                "autocast_excluded_nodes": ["^wide$", "^after$"], "engine_cache_dir": tmp_path}
    x = np.full((2, 4), 2, "float32")
    want = np.full((2, 4), 2 * 4 * 3e4 * 4 * 1e-5, "float32")
    # The engine of this graph is in the cache first, and its names do not fit the patterns.
    assert not np.isfinite(tv.onnx.compile(model("one", "two"), **settings)(x)).any()
    wide = tv.onnx.compile(model("wide", "after"), **settings)
    np.testing.assert_allclose(wide(x), want, rtol=1e-3)
    # From the cache, with its own names.
    before = tv.cache.stats()
    again = tv.onnx.compile(model("wide", "after"), **settings)
    assert tv.cache.stats()["hit"] == before["hit"] + 1
    np.testing.assert_allclose(again(x), want, rtol=1e-3)
    names = [layer["name"] for layer in again.engine.info()["layers"]]
    assert any("wide" in name for name in names) and not any("#" in name for name in names)
    # What a caller passes and gets goes by its own names, too.
    other = tv.onnx.compile(model("wide", "after", out="z"), **settings)
    assert [output.name for output in other.get_outputs()] == ["z"]
    np.testing.assert_allclose(other.run(["z"], {"x": x})[0], want, rtol=1e-3)

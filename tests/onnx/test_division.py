"""What a model is divided into, before anything is built (csrc/division/)."""

import numpy
from onnx import helper

from torch_vulkan._base.settings import Settings
from torch_vulkan._native import C
from torch_vulkan._onnx.division import Division, Engine, Native
from torch_vulkan._onnx.native import Source

from onnx_models import linear, model, tensor, weight


def divided(made, **settings):
    checked = Settings.from_options({"min_block_size": 1, **settings})
    return Division(Source(made), {"inputs": {}}, checked, C.DeviceProfile.builtin_default())


def with_a_stranger():
    """A node that no engine takes reads a product, sizes, and a weight that another hands on."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]),
             helper.make_node("Shape", ["x"], ["sizes"]),
             helper.make_node("Identity", ["v"], ["same"]),
             helper.make_node("Stranger", ["h", "sizes", "same", "v"], ["y"], domain="test"),
             helper.make_node("Tanh", ["h"], ["z"])]
    made = model(nodes, [tensor("x", ["n", 5])], [tensor("y", ["m"]), tensor("z", ["n", 7])],
                 [weight("w", numpy.ones((5, 7), numpy.float32)),
                  weight("v", numpy.ones(3, numpy.float32))])
    made.opset_import.append(helper.make_opsetid("test", 1))
    return made


def test_what_native_nodes_read_and_give():
    found = divided(with_a_stranger())
    value = {name: at for name, (at, _, _) in found.names.items()}
    engine, native = found.steps
    assert isinstance(engine, Engine) and engine.inputs == [value["x"]]
    assert sorted(engine.outputs) == sorted([value["h"], value["z"]])
    assert native == Native([2, 3], {"h": value["h"]}, ["sizes"], ["y"])
    assert [op for _, op, _ in found.native] == ["Stranger"]


def test_a_node_that_engines_take_in_part_is_native_as_a_whole():
    """Softsign is x / (1 + |x|), of which engines would take two parts."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Softsign", ["r"], ["s"]),
             helper.make_node("Tanh", ["s"], ["y"])]
    made = model(nodes, [tensor("x", [3, 5])], [tensor("y", [3, 5])])
    found = divided(made, torch_executed_ops=("aten::abs",))
    first, between, last = found.steps
    assert isinstance(first, Engine) and isinstance(last, Engine)
    assert between.nodes == [1] and between.outputs == ["s"]
    assert last.inputs == [found.names["s"][0]]
    (_, op, reason), = found.native
    assert op == "Softsign" and "torch_executed_ops" in reason


def test_nothing_is_native_of_a_model_that_engines_take():
    found = divided(linear()[0])
    assert found.native == [] and found.has_engines
    assert all(isinstance(step, Engine) for step in found.steps)

"""Small ONNX models for the tests, written by the onnx package."""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, array):
    return numpy_helper.from_array(numpy.asarray(array), name)


def model(nodes, inputs, outputs, weights=(), opset=OPSET, functions=(), domains=()):
    """A ModelProto, unchecked."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(weights))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def linear(batch=("batch", 8), seed=0, width=5):
    """relu(x w + b), with a weight and a bias."""
    rng = numpy.random.default_rng(seed)
    w = rng.standard_normal((8, width)).astype(numpy.float32)
    b = rng.standard_normal(width).astype(numpy.float32)
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="/head/Gemm"),
             helper.make_node("Relu", ["h"], ["y"], name="/head/Relu")]
    made = model(nodes, [tensor("x", batch)], [tensor("y", [batch[0], width])],
                 [weight("w", w), weight("b", b)])
    return made, lambda x: numpy.maximum(x @ w + b, 0)


def unary(op, weights=(), inputs=("x",), opset=OPSET, **attributes):
    """One node of a float vector."""
    return model([helper.make_node(op, list(inputs), ["y"], name="node", **attributes)],
                 [tensor("x", [4])], [tensor("y", None)], weights, opset)


def serialized(made) -> bytes:
    return made.SerializeToString()


def loaded(data: bytes):
    return onnx.load_from_string(data)

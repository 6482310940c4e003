"""Runs an ONNX model in engines and exactly, with every tensor between its nodes a result."""

import importlib.util
import os
from collections.abc import Mapping

import numpy
import onnx

from .files import imported, is_array, serialized, to_array, to_tensor
from .native import Source, reads, unsized

REFERENCES = ("onnxruntime", "torch_vulkan")
_FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16,
           onnx.TensorProto.BFLOAT16}


class Shown:
    """A model whose outputs are all float tensors that its nodes compute from its inputs.

    Args:
        model: a path, bytes or a ModelProto.

    Attributes:
        proto: that model.
        results: the file's outputs.
        tensors: name → (what makes it, names of such tensors that this reads), in order.
        nodes: name → what the compiler's graph calls the nodes that make it.
    """

    def __init__(self, model):
        if isinstance(model, (str, os.PathLike)):
            model = onnx.load(os.fspath(model))  # with its external data
        elif not hasattr(model, "SerializeToString"):
            model = onnx.load_from_string(serialized(model))
        source = Source(model)
        self.proto = source.proto
        self.inputs = [value.name for value in source.inputs]
        self.results = [value.name for value in self.proto.graph.output]
        self.tensors: dict[str, tuple[str, set[str]]] = {}
        self.nodes: dict[str, list[str]] = {}
        decided = {*self.inputs}
        known = {*self.results}
        in_graph = imported(self.proto, {"inputs": {}, "constants": {}, "left_out": {}})
        for node, made in zip(self.proto.graph.node, in_graph.graph_nodes, strict=True):
            read = reads(node)
            if not read & decided:
                continue
            decided.update(name for name in node.output if name)
            for name in node.output:
                kind = source.types.get(name)
                if kind is None or kind.tensor_type.elem_type not in _FLOATS:
                    continue
                self.tensors[name] = (node.name or node.output[0], read & {*self.tensors})
                self.nodes[name] = made
                if name not in known:
                    self.proto.graph.output.append(
                        onnx.helper.make_value_info(name, unsized(kind)))


def reference_named(name: str | None) -> str:
    """What computes exact tensors. Raises ValueError for an unknown name, and for what is not
    installed."""
    there = importlib.util.find_spec("onnxruntime") is not None
    if name is None:
        return REFERENCES[0 if there else 1]
    if name not in REFERENCES:
        raise ValueError(f"tv.compare: reference: got {name!r}, want "
                         f"{' or '.join(map(repr, REFERENCES))}")
    if name == "onnxruntime" and not there:
        raise ValueError("tv.compare: reference='onnxruntime' needs the package onnxruntime")
    return name


def session_of(shown: Shown):
    """ONNX Runtime's, which fuses nothing."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(shown.proto.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def feed_of(names: list[str], item) -> dict[str, numpy.ndarray]:
    """Arrays by name, from a dict, from a list or tuple in order, or from one."""
    if isinstance(item, Mapping):
        given = dict(item)
    else:
        items = item if isinstance(item, (list, tuple)) else (item,)
        given = dict(zip(names, items, strict=False))
    if set(given) != set(names):
        raise ValueError(f"tv.compare: got inputs {sorted(given)}, want {sorted(names)}")
    return {name: value if is_array(value) else to_array(to_tensor(name, value).detach())
            for name, value in given.items()}


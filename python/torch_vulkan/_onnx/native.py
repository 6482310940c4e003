"""Nodes that no engine runs: models of their own, for ONNX Runtime's CPU provider. What it does not
implement runs in the onnx package's reference evaluator, node by node."""

import contextlib
import os
import warnings

import onnx
import onnx.version_converter
from onnx import helper

from .._base.errors import OUT_OF_MEMORY, UnsupportedError
from . import ranks
from .values import element_type, from_runtime, to_runtime

_OLDEST = 7  # opset


class Source:
    """A model to cut parts from.

    Args:
        model: a path, bytes or a ModelProto.
        constants: name → array of inputs that are given now.
    """

    def __init__(self, model, constants=None):
        self.directory = ""
        if isinstance(model, (str, os.PathLike)):
            self.directory = os.path.dirname(os.path.abspath(model))
            self.proto = onnx.load(os.fspath(model), load_external_data=False)
        elif hasattr(model, "SerializeToString"):
            self.proto = onnx.ModelProto()
            self.proto.CopyFrom(model)
        else:
            self.proto = onnx.load_from_string(bytes(model))
        self._of_known_opset()
        graph = self.proto.graph
        self.inputs = self._without_defaults()
        inputs = {value.name: value.type.tensor_type.elem_type for value in graph.input}
        for name, value in (constants or {}).items():
            if name not in inputs:
                raise ValueError(f'[onnx] constants: the model has no input "{name}"')
            if onnx.helper.np_dtype_to_tensor_dtype(value.dtype) != inputs[name]:
                raise ValueError(f'[onnx] constants: "{name}" is of type {value.dtype}, and the '
                                 "model's input of another")
            graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        if constants:
            self.inputs = self._without_defaults()
        self._infer()
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.types = {value.name: value.type for value in
                      (*graph.value_info, *graph.output, *graph.input)}

    def _of_known_opset(self) -> None:
        """Converts a file that is older than both the importer and ONNX Runtime read, where onnx
        can."""
        if any(o.domain in ("", "ai.onnx") and o.version < _OLDEST
               for o in self.proto.opset_import):
            with contextlib.suppress(Exception):  # of many types
                self.proto = onnx.version_converter.convert_version(self.proto, _OLDEST)

    def _without_defaults(self):
        defaults = {tensor.name for tensor in self.proto.graph.initializer}
        return [value for value in self.proto.graph.input if value.name not in defaults]

    def _infer(self) -> None:
        inferred = ranks.inferred(self.proto)
        if inferred is None:
            return
        del self.proto.graph.value_info[:]
        self.proto.graph.value_info.extend(inferred.graph.value_info)
        untyped = {value.name: value for value in inferred.graph.output}
        for value in self.proto.graph.output:
            if not value.type.tensor_type.HasField("shape") and value.name in untyped:
                value.CopyFrom(untyped[value.name])

    @property
    def nodes(self):
        return self.proto.graph.node

    def part(self, indices, inputs, outputs) -> onnx.ModelProto:
        """These nodes as a model; `inputs`: name → TypeProto."""
        made = onnx.ModelProto(ir_version=self.proto.ir_version)
        made.opset_import.extend(self.proto.opset_import)
        made.functions.extend(self.proto.functions)
        made.graph.name = self.proto.graph.name or "part"
        made.graph.node.extend(self.nodes[i] for i in indices)
        made.graph.input.extend(helper.make_value_info(name, kind)
                                for name, kind in inputs.items())
        made.graph.output.extend(self._output(name) for name in outputs)
        wanted = set().union(*(reads(node) for node in made.graph.node)) | {*outputs}
        made.graph.initializer.extend(tensor for name, tensor in self.initializers.items()
                                      if name in wanted and name not in inputs)
        made.graph.sparse_initializer.extend(
            tensor for tensor in self.proto.graph.sparse_initializer
            if tensor.values.name in wanted)
        return made

    def _output(self, name):
        known = self.types.get(name)
        return helper.make_value_info(name, unsized(known)) if known is not None else (
            onnx.ValueInfoProto(name=name))


def reads(node) -> set[str]:
    """Names that a node reads, in its bodies too."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            inner = {value.name for value in (*body.input, *body.initializer)}
            for inside in body.node:
                names |= reads(inside) - inner
                inner.update(inside.output)
            names |= {value.name for value in body.output} - inner
    return names


def unsized(kind: onnx.TypeProto) -> onnx.TypeProto:
    """The type without sizes, which a run tells."""
    made = onnx.TypeProto()
    made.CopyFrom(kind)
    if made.HasField("tensor_type"):
        made.tensor_type.ClearField("shape")
    return made


class Part:
    """Nodes that run natively, one after the other.

    Attributes:
        source: the model that they are of.
        inputs, outputs: names of values that go in and come out.
    """

    def __init__(self, source: Source, indices, inputs, outputs, fixed=None):
        """`fixed`: name → TypeProto of inputs whose types are other than the file's values'."""
        self.source, self._indices = source, sorted(indices)
        self.inputs, self.outputs = [*inputs], [*outputs]
        self._types = {**source.types, **(fixed or {})}
        self._run = None
        if all(name in self._types for name in self.inputs):
            self._open({name: self._types[name] for name in self.inputs})

    def run(self, feed: dict) -> dict:
        """name → value of the outputs. Raises ValueError for what the nodes do not take."""
        if self._run is None:
            self._open({name: self._types.get(name) or _type_of(feed[name])
                        for name in self.inputs})
        try:
            return dict(zip(self.outputs, self._run(feed), strict=True))
        except UnsupportedError:
            raise
        except ImportError as error:  # of a package that the reference evaluator needs
            raise UnsupportedError(f"[onnx] {_first_line(error)}") from error
        except OUT_OF_MEMORY:
            raise
        except Exception as error:  # of many types, ONNX Runtime's own
            raise ValueError(f"tv.onnx: {_first_line(error)}") from error

    def _open(self, types) -> None:
        model = self.source.part(self._indices, {k: unsized(v) for k, v in types.items()},
                                  self.outputs)
        try:
            self._run = _in_runtime(model, self.source.directory)
        except OUT_OF_MEMORY:
            raise
        except Exception as refusal:  # of many types, ONNX Runtime's own
            if len(self._indices) > 1:
                self._run = self._one_by_one()
                return
            self._run = _in_reference(model, self.source, refusal)

    def _one_by_one(self):
        """Each node as a part of its own: some are ONNX Runtime's."""
        nodes = [self.source.nodes[i] for i in self._indices]
        later = [set().union(*(reads(node) for node in nodes[k + 1:]), self.outputs)
                 for k in range(len(nodes))]
        parts = []
        for k, node in enumerate(nodes):
            made = {name for other in nodes[:k] for name in other.output}
            names = [name for name in sorted(reads(node))
                     if name in made or name in self.inputs]
            parts.append(Part(self.source, [self._indices[k]], names,
                              [name for name in node.output if name and name in later[k]]))

        def run(feed):
            known = dict(feed)
            for part in parts:
                known |= part.run({name: known[name] for name in part.inputs})
            return [known[name] for name in self.outputs]

        return run


def _type_of(value) -> onnx.TypeProto:
    if isinstance(value, list):
        inner = _type_of(value[0]) if value else helper.make_tensor_type_proto(
            onnx.TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(inner)
    return helper.make_tensor_type_proto(element_type(value), None)


def _first_line(error) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _in_runtime(model: onnx.ModelProto, directory: str):
    """A function that runs the model in ONNX Runtime's CPU provider."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if directory:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                         directory)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.output]
    numbers = all(arg.type.startswith("tensor(") and arg.type != "tensor(string)"
                  for arg in (*session.get_inputs(), *session.get_outputs()))

    def run(feed):
        if numbers:
            given = {name: to_runtime(value) for name, value in feed.items()}
            return [from_runtime(value) for value in session.run_with_ort_values(names, given)]
        return session.run(names, feed)

    return run


def _in_reference(model: onnx.ModelProto, source: Source, refusal):
    """A function that runs a node in onnx's reference evaluator.

    Raises:
        UnsupportedError: neither runs it.
    """
    from onnx.reference import ReferenceEvaluator

    label = f"{model.graph.node[0].op_type} {model.graph.node[0].name!r}"
    try:
        if source.directory:
            onnx.load_external_data_for_model(model, source.directory)
        evaluator = ReferenceEvaluator(model)
    except Exception as error:  # of many types: what it does not implement
        raise UnsupportedError(f"[onnx] {label}: ONNX Runtime: {_first_line(refusal)}; the onnx "
                               f"package: {_first_line(error)}") from error
    warnings.warn(f"torch_vulkan: {label} runs in onnx's reference evaluator, which is slow: ONNX "
                  f"Runtime: {_first_line(refusal)}", stacklevel=6)
    names = [value.name for value in model.graph.output]
    return lambda feed: evaluator.run(names, feed)

"""A model that runs in engines and natively in turn."""

import warnings

import numpy
import onnx

from .._base.errors import UnsupportedError
from .._base.progress import progress_for
from .._engines.engine import Engine as BuiltEngine
from .._native import C
from . import division
from .files import ALL_DTYPES, as_type, held, to_tensor, weights_of
from .native import Part, Source
from .single import ANOTHER
from .values import to_value
from .whole import Whole


class _Unfit(Exception):
    """Sizes that the plan does not have: the call runs natively as a whole."""


class Mixed:
    """Builds the engines of a divided model and opens its native parts.

    Attributes:
        inputs, outputs: (name, type, shape) in the file's order.
        engines: in the order in which they run.
        native: (node's label, operator, reason) of what runs natively.

    Raises:
        UnsupportedError: neither an engine, ONNX Runtime nor the onnx package runs a node.
    """

    def __init__(self, planned: division.Division, plan_of, device: str):
        """`plan_of`: the Division of another file."""
        self._plan_of, self._device = plan_of, device
        self._planned, self._settings = planned, planned.settings
        self.native = planned.native
        self.inputs, self.outputs = described(planned.source)
        self._whole = self._whole_of(planned)
        if not planned.has_engines:
            warnings.warn("torch_vulkan: no engine takes a part of this model: all of it runs in "
                          "ONNX Runtime", stacklevel=5)
        self._graph = planned.model.graph
        self._formats = {at: form for at, _, form in planned.names.values() if form}
        self._ranges = planned.model.ranges
        self._runners = self._opened(planned)
        self.engines = [runner for step, runner in self._runners
                        if isinstance(step, division.Engine)]

    def _opened(self, planned) -> list:
        """(step, Part or engine) in order. Native parts first, as building takes time."""
        parts = {id(step): self._part(planned, step) for step in planned.steps
                 if isinstance(step, division.Native)}
        weights = weights_of(planned.model, self._settings)
        keyed = self._settings.keyed_by(weights.values())
        progress = progress_for("onnx", self._settings.progress)
        runners = []
        for step in planned.steps:
            if id(step) in parts:
                runners.append((step, parts[id(step)]))
                continue
            engine = BuiltEngine(C.build(planned.plan, step.block, progress, keyed.cache_json()),
                                 self._device or None,
                                 weight_budget=self._settings.weight_budget)
            engine.set_weights({w["name"]: weights[w["name"]] for w in engine.info()["weights"]})
            runners.append((step, engine))
        if progress:
            progress.close()
        return runners

    @staticmethod
    def _part(planned, step: division.Native) -> Part:
        sized = {name: onnx.helper.make_tensor_type_proto(planned.type_of(name), None)
                 for name in step.by_size}
        return Part(planned.source, step.nodes, [*step.by_value, *step.by_size], step.outputs,
                    sized)

    def run(self, wanted, feed) -> list:
        """The outputs `wanted`: tensors or what values.py says."""
        given = {name: to_value(numpy.asarray(feed[name]) if kind.startswith("tensor(")
                                and isinstance(feed[name], (list, tuple)) else feed[name])
                 for name, kind, _ in self.inputs}
        values: dict[int, object] = {}
        symbols: dict[int, int] = {}
        try:
            for name, dtype, _ in self._planned.model.inputs:
                self._check_input(name, dtype, given[name])
                self._put(name, given[name], values, symbols)
            for step, runner in self._runners:
                if isinstance(step, division.Engine):
                    self._run_engine(step, runner, values)
                else:
                    self._run_native(step, runner, values, symbols)
            return [self._output(name, values, symbols) for name in wanted]
        except _Unfit as unfit:
            return self._whole.run(wanted, given, str(unfit))

    def _check_input(self, name, dtype, value) -> None:
        if dtype == "other" or not isinstance(value, numpy.ndarray):
            return
        if str(value.dtype) != dtype:
            raise ValueError(f"tv.onnx: input {name!r}: got {value.dtype}, want {dtype}")

    def _put(self, name, value, values, symbols) -> None:
        """Takes a value of the file's, and the sizes that it tells."""
        at = self._planned.names[name][0]
        if at is None:
            return
        values[at] = value
        if self._graph.value_dtype(at) == C.DType.other or not isinstance(value, numpy.ndarray):
            return
        shape = self._graph.value_shape(at)
        if len(shape) != value.ndim:
            raise _Unfit(f"{name!r} has rank {value.ndim}, and not {len(shape)}")
        for size, got in zip(shape, value.shape, strict=True):
            self._bind(name, size, got, symbols)

    def _bind(self, name, size, got, symbols) -> None:
        if isinstance(size, int):
            if size != got:
                raise _Unfit(f"a size of {name!r} is {got}, and not {size}")
            return
        solved = size.solve(got)
        if solved is None:
            return
        symbol, value = solved
        label, low, high = self._ranges[symbol]
        if symbols.setdefault(symbol, value) != value:
            raise _Unfit(f"{label} is {symbols[symbol]} and, in {name!r}, {value}")
        if value < low or (high is not None and value > high):
            text = f"{name!r}: {label} is {value}, want {low} to {high if high else 'any'}"
            if name in self._planned.given["inputs"]:  # the caller's own bounds
                raise ValueError(f"tv.onnx: {text}")
            raise _Unfit(text)

    def _run_engine(self, step, engine, values) -> None:
        inputs = [held(to_tensor("", values[v]), self._settings) for v in step.inputs]
        try:
            results = engine.run(inputs)
        except (ValueError, UnsupportedError) as error:  # before anything has run
            raise _Unfit(str(error)) from error
        for v, result in zip(step.outputs, results.values(), strict=True):
            dtype = self._formats.get(v) or self._graph.value_dtype(v).name
            values[v] = to_value(as_type(result, dtype))

    def _run_native(self, step, part, values, symbols) -> None:
        feed = {name: values[v] for name, v in step.by_value.items()}
        feed |= {name: self._from_sizes(name, symbols) for name in step.by_size}
        for name, value in part.run(feed).items():
            self._put(name, value, values, symbols)

    def _from_sizes(self, name, symbols):
        _, dims, elements = self._planned.names[name][1]
        used = {s for e in elements if not isinstance(e, (int, float)) for s in e.symbols()}
        if unknown := used - symbols.keys():
            raise _Unfit(f"{self._ranges[min(unknown)][0]} is not known where {name!r} is read")
        known = [symbols.get(s, 0) for s in range(len(self._ranges))]
        numbers = [e if isinstance(e, (int, float)) else e.eval(known) for e in elements]
        # From integers of 64 bits: bit for bit where uint64 is held in them.
        return numpy.array(numbers).astype(self._planned.numpy_type_of(name)).reshape(dims)

    def _output(self, name, values, symbols):
        at, host, _ = self._planned.names[name]
        if at in values:
            return values[at]
        if host is not None:
            return self._from_sizes(name, symbols)
        return self._constant(name)

    def _constant(self, name):
        source = self._planned.source
        if name not in source.initializers:
            return self._whole.part().run({})[name]
        return onnx.numpy_helper.to_array(source.initializers[name], source.directory)

    @staticmethod
    def _whole_of(planned) -> Whole:
        return Whole(lambda: planned.source, planned.given["inputs"])

    def refit(self, model) -> None:
        """Raises ValueError where the file is of another network."""
        planned = self._plan_of(model)
        if planned.signature() != self._planned.signature():
            raise ValueError(ANOTHER)
        weights = weights_of(planned.model, self._settings)
        wanted = [[weights[w["name"]] for w in engine.info()["weights"]]
                  for engine in self.engines]
        parts = {i: self._part(planned, step) for i, step in enumerate(planned.steps)
                 if isinstance(step, division.Native)}
        for engine, tensors in zip(self.engines, wanted, strict=True):
            engine.set_weights(tensors)
        self._runners = [(step, parts.get(i, runner))
                         for i, (step, runner) in enumerate(self._runners)]
        self._planned, self._whole = planned, self._whole_of(planned)


def described(source: Source) -> tuple[list, list]:
    """(name, type, shape) of the inputs and outputs of a file."""
    def of(value):
        kind = value.type
        if not kind.HasField("tensor_type"):
            return value.name, (kind.WhichOneof("value") or "").removesuffix("_type"), []
        name = onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type).lower()
        sizes = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
                 for dim in kind.tensor_type.shape.dim]
        return value.name, f"tensor({name})", sizes

    return [of(v) for v in source.inputs], [of(v) for v in source.proto.graph.output]


def as_tensor(value):
    """A result for callers that gave tensors."""
    known = isinstance(value, numpy.ndarray) and value.dtype.name in ALL_DTYPES
    return to_tensor("", value) if known else value

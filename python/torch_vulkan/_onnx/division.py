"""What of a model runs in engines, and what natively, as csrc/division/ divides it."""

from dataclasses import dataclass

import numpy
from onnx import helper

from .._base.calibration_use import warn_of_missing, warn_of_unused
from .._base.dumps import debug_directory
from .._native import C
from .files import UNSIGNED
from .native import Source, reads


@dataclass
class Engine:
    """A block of the plan. Values of the graph by number, as its engine orders them."""

    block: int
    inputs: list[int]
    outputs: list[int]


@dataclass
class Native:
    """Nodes of the file that run one after the other.

    Attributes:
        nodes: by number; what only feeds them (constants that are nodes) included.
        by_value: name → value of the graph that the nodes read.
        by_size: names that are computed from sizes.
        outputs: names that others read.
    """

    nodes: list[int]
    by_value: dict[str, int]
    by_size: list[str]
    outputs: list[str]


def divide(source: Source, given: dict, settings, profile):
    """The compiler's division of a model (csrc/division/), with nobody told of it."""
    return C.divide_onnx(
        source.proto.SerializeToString(),
        {**given, "constants": {}, "directory": source.directory},
        settings.compiler_json(debug_directory(settings)), profile)


class Division:
    """Plans a model; builds nothing.

    Attributes:
        source: the file.
        model: the imported model.
        plan: of its Graph.
        steps: Engine and Native, in the order in which they run.
        native: (node's label, operator, reason) of what stays native.
    """

    def __init__(self, source: Source, given: dict, settings, profile):
        self.source, self.given, self.settings = source, given, settings
        divided = divide(source, given, settings, profile)
        self.model, self.plan = divided.model, divided.plan
        warn_of_missing(self.plan.calibration)
        self.names = self.model.names
        self.native = [(label, op, reason) for label, op, _, _, reason in self.model.nodes
                       if reason]
        warn_of_unused(self.plan.calibration)
        self.steps = [Engine(*step) if len(step) == 3 else Native(*step)
                      for step in divided.steps]

    @property
    def has_engines(self) -> bool:
        return any(isinstance(step, Engine) for step in self.steps)

    def type_of(self, name: str) -> int:
        """TensorProto.DataType of a value that is computed from sizes."""
        return helper.np_dtype_to_tensor_dtype(self.numpy_type_of(name))

    def numpy_type_of(self, name: str) -> numpy.dtype:
        """Likewise."""
        _, (dtype, _, _), form = self.names[name]
        return numpy.dtype(form if form in UNSIGNED else dtype)

    def signature(self) -> list:
        """Equal for models that differ in weights alone."""
        return [self.plan.key(step.block) if isinstance(step, Engine) else
                (tuple(step.nodes), tuple(step.by_value), tuple(step.by_size),
                 tuple(str(self.source.nodes[n]) for n in step.nodes),
                 tuple((t.name, t.data_type, tuple(t.dims)) for t in self._initializers(step)))
                for step in self.steps]

    def _initializers(self, step):
        names = set().union(*(reads(self.source.nodes[n]) for n in step.nodes))
        return [tensor for name, tensor in self.source.initializers.items() if name in names]

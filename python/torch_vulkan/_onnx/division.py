"""What of a model runs in engines, and what natively: the compiler's plan of its Graph, in which
the nodes that are left out stand for themselves."""

from dataclasses import dataclass, field

import numpy
from onnx import helper

from .._base.calibration_use import warn_of_missing
from .._base.dumps import debug_directory
from .._native import C
from .files import imported
from .native import Source, reads


@dataclass
class Engine:
    """A block of the plan. Values of the graph by number, as its engine orders them."""

    block: int
    inputs: list[int]
    weights: list[int]
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
    by_value: dict[str, int] = field(default_factory=dict)
    by_size: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


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
        self.compiler = settings.compiler_json(debug_directory(settings))
        data = source.proto.SerializeToString()
        left_out: dict[int, str] = {}
        self.candidate_sizes = None
        while True:
            self.model = imported(data, {**given, "constants": {}, "left_out": left_out,
                                         "directory": source.directory,
                                         "sparse_weights": settings.sparse_weights})
            nodes = self.model.nodes
            self.plan = C.plan(self.model.graph, self.compiler, profile)
            if self.candidate_sizes is None:
                self.candidate_sizes = list(self.plan.candidate_sizes)
            # A node of the file is native as a whole.
            more = {at: reason for at, reason, _ in self.plan.native
                    if at >= 0 and at not in left_out and not nodes[at][4]}
            if not more:
                break
            left_out |= more
        warn_of_missing(self.plan.calibration)
        self.names = self.model.names
        self.native = [(label, op, reason) for label, op, _, _, reason in nodes if reason]
        self.steps = self._steps()

    @property
    def has_engines(self) -> bool:
        return any(isinstance(step, Engine) for step in self.steps)

    def _steps(self) -> list:
        steps: list = []  # every node of the Graph is of a node of the file
        for is_block, index in self.plan.schedule:
            if is_block:
                steps.append(Engine(index, *self.plan.border(index)))
            elif steps and isinstance(steps[-1], Native):
                steps[-1].nodes.append(index)
            else:
                steps.append(Native([index]))
        self._connect(steps)
        return [step for step in steps if isinstance(step, Engine) or step.outputs]

    def _connect(self, steps) -> None:
        """Says what native nodes read, and which of their results others do."""
        graph, nodes = self.model.graph, self.model.nodes
        natives = [step for step in steps if isinstance(step, Native)]
        written = {name for step in natives for n in step.nodes for name in nodes[n][3]}
        inputs = {name for name, _, _ in self.model.inputs}
        made = {self.names[name][0] for name in written | inputs if name in self.names}
        made |= {v for step in steps if isinstance(step, Engine) for v in step.outputs}
        self._makers = {name: n for n, (*_, names, _) in enumerate(nodes) for name in names}
        for step in natives:
            self._read(step, made)
        wanted = {v for step in steps for v in (
            step.inputs if isinstance(step, Engine) else step.by_value.values())}
        wanted |= {self.names[value.name][0] for value in self.source.proto.graph.output}
        for step in natives:
            for name in (name for n in step.nodes for name in nodes[n][3] if name):
                at = self.names[name][0]
                if at is None:  # of a node that others run, too
                    continue
                sized = any(not isinstance(size, int) for size in graph.value_shape(at))
                if (at in wanted or sized) and name not in step.outputs:
                    step.outputs.append(name)

    def _read(self, step: Native, made: set) -> None:
        rest, inside = list(step.nodes), set(step.nodes)
        own = {self.names[name][0] for n in step.nodes for name in self.model.nodes[n][3]
               if name in self.names}
        while rest:
            node = rest.pop()
            for name in self.model.nodes[node][2]:
                if self._makers.get(name) in inside or name in self.source.initializers:
                    continue
                at, host, _ = self.names.get(name, (None, None, ""))
                if at in made and at not in own:  # its own by another name: a node hands it on
                    step.by_value[name] = at
                elif host is not None:
                    step.by_size += [] if name in step.by_size else [name]
                elif name in self._makers:  # a tensor of the file that a node hands on
                    inside.add(self._makers[name])
                    rest.append(self._makers[name])
        step.nodes = sorted(inside)

    def type_of(self, name: str) -> int:
        """TensorProto.DataType of a value that is computed from sizes."""
        return helper.np_dtype_to_tensor_dtype(numpy.dtype(self.names[name][1][0]))

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

"""A call with as little Python as can be, for graphs of one engine and views of its results."""

import contextlib
import operator
import threading
from typing import NamedTuple

import torch
from torch import fx

from .._torch.strides import is_dense
from . import engine_call
from .fx_nodes import has_effect
from .returned_views import base_of, is_kept

_recorded = threading.local()


@contextlib.contextmanager
def recorded():
    """Collects what calls of this thread do besides views of results: torch_vulkan::execute_call
    does the same again, of the same tensors."""
    before, _recorded.calls = getattr(_recorded, "calls", None), []
    try:
        yield _recorded.calls
    finally:
        _recorded.calls = before


# Where a value comes from: the engine's results and the views of them, the arguments, neither.
_MADE, _ARGUMENT, _FIXED = range(3)


def whole_graph(module: fx.GraphModule):
    """A callable that does what a graph does which is one engine and, behind it, views that PyTorch
    makes; None if there is more."""
    (call,) = module.graph.find_nodes(op="call_module")
    target = getattr(module, call.target)
    if target.number_positions or any(isinstance(a, (int, float)) for a in call.args):
        return None
    sources = {node: (_ARGUMENT, i)
               for i, node in enumerate(module.graph.find_nodes(op="placeholder"))}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            sources[node] = _FIXED, engine_call.constants_of(module, node)
        elif node.target is operator.getitem and node.args[0] is call:
            sources[node] = _MADE, node.args[1]
        elif node.op == "call_function" and not is_kept(node) and (node.users or has_effect(node)):
            return None
    given = [sources.get(a, (_FIXED, a)) for a in call.args]
    if any(isinstance(a, fx.Node) and a not in sources for a in call.args) or any(
            given[i][0] != _ARGUMENT for i in target.input_positions):
        return None  # PyTorch makes it first
    views = _Views(sources, len(target.native.graph.output_node().args[0]))
    results = [views.source(value) for value in module.graph.output_node().args[0]]
    return _whole_call(target, given, views.made, results)


class _Views:
    """What makes the views that are wanted, each once: functions of what was made before and of the
    arguments."""

    def __init__(self, sources: dict[fx.Node, tuple], outputs: int):
        self._sources, self._outputs = sources, outputs
        self.made = []

    def source(self, value) -> tuple:
        """Where a value comes from; a view is one to make from now on."""
        if not isinstance(value, fx.Node):
            return _FIXED, value
        if value not in self._sources:
            view = self._strided(value) or self._as_written(value)
            self._sources[value] = _MADE, self._outputs + len(self.made)
            self.made.append(view)
        return self._sources[value]

    def _strided(self, node: fx.Node):
        """A view of a buffer that the engine has filled, whatever chain of operators it is."""
        kind, index = self._sources.get(base_of(node), (_FIXED, None))
        shown = _as_strided(node)
        if kind != _MADE or shown is None or node.target is torch.ops.aten.detach.default:
            return None  # (what detach gives is no view, as autograd says)
        size, stride, offset = shown
        return lambda made, args: made[index].as_strided(size, stride, offset)

    def _as_written(self, node: fx.Node):
        given = fx.node.map_arg(node.args, lambda n: _Place(*self.source(n)))
        return lambda made, args: node.target(*_filled(given, made, args), **node.kwargs)


class _Place(NamedTuple):
    kind: int
    at: object


def _filled(value, made, args):
    """The arguments of a view, with values for places."""
    if isinstance(value, _Place):
        return made[value.at] if value.kind == _MADE else (
            args[value.at] if value.kind == _ARGUMENT else value.at)
    if isinstance(value, (tuple, list)):
        return [_filled(item, made, args) for item in value]
    return value


def _as_strided(node: fx.Node):
    """Size, stride and offset of a view in a buffer that an engine has filled; None if they are
    not all of it, or not known."""
    value, base = node.meta["val"], base_of(node).meta["val"]
    if not isinstance(value, torch.Tensor) or value.dtype != base.dtype or not is_dense(base) or (
            value.is_conj() != base.is_conj() or value.is_neg() != base.is_neg()):
        return None
    shown = tuple(value.shape), tuple(value.stride()), value.storage_offset()
    known = (*shown[0], *shown[1], shown[2], *base.shape, base.storage_offset())
    return shown if all(isinstance(n, int) for n in known) and known[-1] == 0 else None


def _whole_call(target, arguments, views, results):
    """`target`: the engine's call, of `arguments`."""
    places = [at if kind == _ARGUMENT else -1 for kind, at in arguments]
    constants = [at if kind == _FIXED else None for kind, at in arguments]
    inputs = [places[i] for i in target.input_positions]
    weights = [(places[i], constants[i]) for i in target.weight_positions]
    in_order = not views and results == [(_MADE, i) for i in range(len(results))]

    def all_arguments(args):
        return [args[a] if a >= 0 else c for a, c in zip(places, constants, strict=True)]

    def run(args):
        given = [args[i] for i in inputs]
        kept = [args[i] if i >= 0 else c for i, c in weights]
        try:
            made = target.outputs(given, kept)
            if (calls := getattr(_recorded, "calls", None)) is not None:
                calls.append(torch.classes.torch_vulkan.Call(given, kept, target.engine))
        except (IndexError, RuntimeError) as error:
            made = target.instead(error, all_arguments(args))
        if not in_order:
            for view in views:
                made.append(view(made, args))
            made = [made[v] if kind == _MADE else args[v] if kind == _ARGUMENT else v
                    for kind, v in results]
        args.clear()
        return made

    run._boxed_call = True
    return run

"""Runs a PyTorch module so that somebody sees what calibration observes: the inputs of products and
convolutions, by the names that compiling the module gives them; and what they make of it."""

import contextlib
import copy
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import fx, nn

from .._base.settings import Settings
from .._dynamo import backend
from .._fx import report
from .._fx.fx_nodes import module_path_of
from .._fx.importer import ID, Importer
from .._fx.mutation import detach_writes
from .._fx.prepare import prepare
from .._native import C
from .._torch import compat, own_captures
from .._torch.kept_composites import use_own_operators

# Called with a name, a tensor, and the dimension of its channels (-1: none), which a product sums
# over where the last is True, a convolution else.
See = Callable[[str, torch.Tensor, int, bool], None]
# Called with "input", "layer" or "result", the name of a point or the number of a result, what
# PyTorch computes, and what engines do.
SeeBoth = Callable[[str, str, torch.Tensor, torch.Tensor], None]


class Point(NamedTuple):
    """A product or convolution of a captured graph: a name, the nodes that are its input, its
    result and the weights that its weight is made of, how that is made, and the dimension of the
    input's channels (-1: none)."""

    name: str
    input: fx.Node
    result: fx.Node
    leaves: list[fx.Node]
    making: str
    channel_dim: int
    is_product: bool


def call(function: Callable, batch):
    """Calls a function with a batch: a tensor, a tuple or list of arguments, or a dict of them by
    keyword."""
    with torch.no_grad():
        if isinstance(batch, Mapping):
            return function(**batch)
        return function(*(batch if isinstance(batch, (tuple, list)) else (batch,)))


@contextlib.contextmanager
def observed(model: nn.Module, see: See):
    """Within it: the model, captured as torch.compile captures it and run by PyTorch. It raises
    ValueError where part of it cannot be seen, or where two weights have one name."""
    settings = Settings(pass_through_build_failures=True)
    weights: dict[str, tuple] = {}

    # A function by name, which graphs can call.
    def seen(name, making, channel_dim, is_product, tensor, *leaves):
        own = (making, *(leaf.data_ptr() for leaf in leaves))
        if weights.setdefault(name, own) != own:
            raise ValueError(
                f"tv.calibrate: {name!r} is what two weights go by, in graphs that the module is "
                "captured as one by one: want no graph break inside of a sub-module, and the same "
                "products of a parameter in each of its branches")
        see(name, tensor, channel_dim, is_product)

    def compiler(module: fx.GraphModule, example_inputs):
        first = next(node for node in module.graph.nodes if node.op != "placeholder")
        for point in _points(module, backend.parameters_of(module, settings), settings):
            node = point.input
            at = first.prev if node.op == "placeholder" else node
            with module.graph.inserting_after(at):
                module.graph.call_function(seen, (
                    point.name, point.making, point.channel_dim, point.is_product, node,
                    *point.leaves))
        use_own_operators(module)
        module.recompile()
        return backend.boxed(module.forward)

    with _captured(model, compiler, settings) as run:
        yield run


@contextlib.contextmanager
def side_by_side(model: nn.Module, settings: Settings, see: SeeBoth, modules: dict[str, str]):
    """Within it: the model, captured likewise; each graph runs in PyTorch and as these settings
    compile it. A point's input and its result are seen, and what each graph returns. `modules` is
    given the module that each point is in, by its name."""
    def compiler(module: fx.GraphModule, example_inputs):
        weights = backend.parameters_of(module, settings)
        points = _points(module, weights, settings.replaced(calibration=""))
        output = module.graph.output_node()
        results = len(output.args[0])
        names = [("result", f"{i}") for i in range(results)]
        for point in points:
            names += [("input", point.name), ("layer", point.name)]
            modules[point.name] = module_path_of(point.result)
        output.args = ((*output.args[0], *(n for p in points for n in (p.input, p.result))),)
        native = fx.GraphModule(module, copy.deepcopy(module.graph))
        use_own_operators(native)
        backend.build_engines(module, "inference", settings, weights, len(names))

        def run(*args):
            given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
            want, got = native(*given), module(*args)
            for (kind, name), exact, made in zip(names, want, got, strict=False):
                if isinstance(exact, torch.Tensor) and exact.is_floating_point():
                    see(kind, name, exact, made)
            return list(got[:results])

        return backend.boxed(run)

    with _captured(model, compiler, settings) as run:
        yield run


@contextlib.contextmanager
def _captured(model: nn.Module, compiler: Callable, settings: Settings):
    def capture(module: fx.GraphModule, example_inputs):
        aot = backend.aot_backend(compiler, compiler, compiler)
        try:
            made = backend.compile_captured(aot, module, example_inputs, settings)
        except Exception as error:  # of many types: whatever PyTorch's tracing of a graph raises
            if compat.is_for_dynamo(error) or not settings.pass_through_build_failures:
                raise
            raise _not_observed(report.not_traced(error)) from error
        if settings.pass_through_build_failures and made == module.forward:  # as a whole PyTorch's
            raise _not_observed("a graph that no engine takes runs as PyTorch has it")
        return made

    with own_captures.captured(model, capture) as run:
        yield run


def _not_observed(reason: str) -> Exception:
    return compat.through_dynamo(ValueError(f"{reason}: nothing of the graph can be observed"))


def _points(module: fx.GraphModule, weights: set[str], settings: Settings) -> list[Point]:
    """Those of a graph that nothing has changed yet."""
    prepared = fx.GraphModule(module, copy.deepcopy(module.graph))
    detach_writes(prepared)
    prepare(prepared, len(prepared.graph.output_node().args[0]))
    imported = Importer(prepared, weights, by_parameters=True).run()
    named = {node.meta[ID]: node.name for node in prepared.graph.nodes if ID in node.meta}
    own = {node.name: node for node in module.graph.nodes}
    points = C.observed_points(imported.graph, settings.compiler_json())
    return [Point(name, own[named[value]], own[imported.nodes[origin].name],
                  [own[named[leaf]] for leaf in leaves if named.get(leaf) in weights], making,
                  channel_dim, is_product)
            for name, value, origin, leaves, making, channel_dim, is_product in points
            if named.get(value) in own and imported.nodes[origin].name in own]

"""Runs a PyTorch module so that somebody sees what calibration observes: the inputs of products and
convolutions, by the names that compiling the module gives them; and what they make of it."""

import copy
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import fx, nn

from . import backend
from ._fx.importer import ID, Importer
from ._fx.mutation import detach_writes
from ._fx.prepare import prepare
from ._native import C
from ._torch.kept_composites import use_own_attention
from .settings import Settings

# Called with a name and a tensor.
See = Callable[[str, torch.Tensor], None]
# Called with "input", "layer" or "result", the name of a point or the number of a result, what
# PyTorch computes, and what engines do.
SeeBoth = Callable[[str, str, torch.Tensor, torch.Tensor], None]


class Point(NamedTuple):
    """A product or convolution of a captured graph: a name, and the nodes that are its input and
    its result."""

    name: str
    input: fx.Node
    result: fx.Node


def call(function: Callable, batch):
    """Calls a function with a batch: a tensor, a tuple or list of arguments, or a dict of them by
    keyword."""
    with torch.no_grad():
        if isinstance(batch, Mapping):
            return function(**batch)
        return function(*(batch if isinstance(batch, (tuple, list)) else (batch,)))


def observed(model: nn.Module, see: See) -> Callable:
    """The model, captured as torch.compile captures it and run by PyTorch."""
    settings = Settings()

    def seen(name, tensor):  # a function by name, which graphs can call
        see(name, tensor)

    def compiler(module: fx.GraphModule, example_inputs):
        first = next(node for node in module.graph.nodes if node.op != "placeholder")
        for name, node, _ in _points(module, backend.parameters_of(module), settings):
            at = first.prev if node.op == "placeholder" else node
            with module.graph.inserting_after(at):
                module.graph.call_function(seen, (name, node))
        use_own_attention(module)
        module.recompile()
        return backend.boxed(module.forward)

    return _captured(model, compiler, settings)


def side_by_side(model: nn.Module, settings: Settings, see: SeeBoth) -> Callable:
    """The model, captured likewise; each graph runs in PyTorch and as these settings compile it.
    A point's input and its result are seen, and what each graph returns."""
    def compiler(module: fx.GraphModule, example_inputs):
        weights = backend.parameters_of(module)
        points = _points(module, weights, settings.replaced(calibration=""))
        output = module.graph.output_node()
        results = len(output.args[0])
        names = [("result", f"{i}") for i in range(results)]
        for point in points:
            names += [("input", point.name), ("layer", point.name)]
        output.args = ((*output.args[0], *(n for p in points for n in (p.input, p.result))),)
        native = fx.GraphModule(module, copy.deepcopy(module.graph))
        use_own_attention(native)
        backend.build_engines(module, "inference", settings, weights, len(names))

        def run(*args):
            given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
            want, got = native(*given), module(*args)
            for (kind, name), exact, made in zip(names, want, got, strict=False):
                if isinstance(exact, torch.Tensor) and exact.is_floating_point():
                    see(kind, name, exact, made)
            return list(got[:results])

        return backend.boxed(run)

    return _captured(model, compiler, settings)


def _captured(model: nn.Module, compiler: Callable, settings: Settings) -> Callable:
    def capture(module: fx.GraphModule, example_inputs):
        aot = backend.aot_backend(compiler, compiler, compiler)
        return backend.compile_captured(aot, module, example_inputs, settings)

    return torch.compile(model, backend=capture)


def _points(module: fx.GraphModule, weights: set[str], settings: Settings) -> list[Point]:
    """Those of a graph that nothing has changed yet."""
    prepared = fx.GraphModule(module, copy.deepcopy(module.graph))
    detach_writes(prepared)
    prepare(prepared, len(prepared.graph.output_node().args[0]))
    imported = Importer(prepared, weights).run()
    named = {node.meta[ID]: node.name for node in prepared.graph.nodes if ID in node.meta}
    own = {node.name: node for node in module.graph.nodes}
    return [Point(name, own[named[value]], own[imported.nodes[origin].name])
            for name, value, origin in C.observed_points(imported.graph, settings.compiler_json())
            if named.get(value) in own and imported.nodes[origin].name in own]

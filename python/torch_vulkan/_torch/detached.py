"""Results that share memory with an argument, or with another result, and are no views:
`x.detach()`. AOTAutograd makes them anew as views."""

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor


def keep_detached(module: fx.GraphModule, compiled):
    """`compiled`, where its results are views where those of the captured graph are, and where
    another result is a view of them. A view of a tensor that is then given other data
    (`x.data = y`) could not be traced any more."""
    places = _detached(module)
    if not places:
        return compiled

    def call(*args):
        results = [*compiled(*args)]
        made = {}  # what is returned twice stays the same object
        for i in places:
            result = results[i]
            if result._is_view() and not result.requires_grad:
                if id(result) not in made:
                    made[id(result)] = result, result.detach()
                results[i] = made[id(result)][1]
        return tuple(results)

    return call


def _detached(module: fx.GraphModule) -> list[int]:
    """Positions of results that are not views, and share memory with others or with arguments, but
    for those of which another result is a view: AOTAutograd makes both views of one tensor, which
    another graph that writes to them has to be told."""
    graph = module.graph
    results = graph.output_node().args[0]
    if not isinstance(results, (tuple, list)):
        return []
    values = [_value(node) for node in results]
    seen = [_memory(_value(node)) for node in graph.find_nodes(op="placeholder")]
    seen += [_memory(value) for value in values]
    return [i for i, value in enumerate(values)
            if _memory(value) is not None and not value._is_view() and not value.requires_grad
            and seen.count(_memory(value)) > 1
            and not any(other is not None and other._base is value for other in values)]


def _value(node) -> torch.Tensor | None:
    value = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return value if isinstance(value, FakeTensor) else None


def _memory(value: torch.Tensor | None) -> int | None:
    if value is None or value.layout != torch.strided:
        return None
    return value.untyped_storage()._cdata

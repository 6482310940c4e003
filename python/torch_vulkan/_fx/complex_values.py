"""Complex tensors at the border of an engine, which holds them as pairs of real numbers."""

import operator

import torch
from torch import fx

aten = torch.ops.aten


def is_complex(node: fx.Node) -> bool:
    """True for a node that makes complex tensors."""
    value = node.meta.get("val")
    return any(isinstance(v, torch.Tensor) and v.is_complex()
               for v in (value if isinstance(value, (tuple, list)) else (value,)))


def real_at_border(module: fx.GraphModule, name: str) -> None:
    """Makes the complex arguments and results of the sub-module `name` real ones with a last
    dimension of 2: views of the same memory."""
    body = getattr(module, name)
    (call,) = (n for n in module.graph.find_nodes(op="call_module") if n.target == name)
    changed = _arguments(module.graph, call, body.graph)
    changed |= _results(module.graph, call, body.graph)
    if changed:
        body.recompile()
        module.recompile()


def _arguments(graph: fx.Graph, call: fx.Node, body: fx.Graph) -> bool:
    placeholders = body.find_nodes(op="placeholder")
    args = list(call.args)
    found = [i for i, inner in enumerate(placeholders) if is_complex(inner)]
    for i in found:
        inner = placeholders[i]
        with graph.inserting_before(call):
            args[i] = _as_real(graph, args[i])
        with body.inserting_after(inner):
            pairs = body.call_function(aten.view_as_complex.default, (inner,))
        pairs.meta = {**inner.meta}
        inner.replace_all_uses_with(pairs, delete_user_cb=lambda user, own=pairs: user is not own)
        inner.meta["val"] = _real(inner.meta["val"])
    call.args = tuple(args)
    return bool(found)


def _results(graph: fx.Graph, call: fx.Node, body: fx.Graph) -> bool:
    output = body.output_node()
    results, pairs = list(output.args[0]), {}
    for i, node in enumerate(results):
        if isinstance(node, fx.Node) and is_complex(node):
            with body.inserting_before(output):
                results[i] = pairs[i] = _as_real(body, node)
    output.args = (tuple(results),)
    for user in list(call.users):
        if user.target is not operator.getitem or user.args[1] not in pairs:
            continue
        value = user.meta["val"]
        with graph.inserting_after(user):
            viewed = graph.call_function(aten.view_as_complex.default, (user,))
        with graph.inserting_after(viewed):  # a tensor of its own for callers, no view of pairs
            again = graph.call_function(aten.detach.default, (viewed,))
        viewed.meta, again.meta = {**user.meta}, {**user.meta}
        user.replace_all_uses_with(again, delete_user_cb=lambda other, own=viewed: other is not own)
        user.meta["val"] = _real(value)
    return bool(pairs)


def _as_real(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """view_as_real, which takes no tensor that is conjugated lazily."""
    value = node.meta["val"]
    plain = graph.call_function(aten.resolve_conj.default, (node,))
    plain.meta = {**node.meta, "val": value}
    pairs = graph.call_function(aten.view_as_real.default, (plain,))
    pairs.meta = {**node.meta, "val": _real(value)}
    return pairs


def _real(value: torch.Tensor) -> torch.Tensor:
    """What view_as_real says of a fake tensor, conjugated lazily or not."""
    return torch.view_as_real(value.new_empty_strided(value.shape, value.stride()))

"""Regions that PyTorch compiles once (torch.compiler.nested_compile_region): parts of the graph."""

import operator

import torch
from torch import fx


def inline(module: fx.GraphModule) -> None:
    """Puts the nodes of each region in place of its calls, as engines go across it then. A call of
    other sizes or strides than those that the region was traced with stays."""
    graph = module.graph
    changed = False
    while calls := [node for node in graph.nodes if _fits(module, node)]:
        for node in calls:
            _inline_one(module, node)
        changed = True
    if changed:
        graph.lint()
        module.recompile()


def _fits(module: fx.GraphModule, node: fx.Node) -> bool:
    if node.op != "call_function" or node.target is not torch.ops.higher_order.invoke_subgraph or (
            any(user.target is not operator.getitem for user in node.users)):
        return False
    body = getattr(module, node.args[0].target, None)
    if not isinstance(body, fx.GraphModule) or node.kwargs:
        return False
    inner = body.graph.find_nodes(op="placeholder")
    results = body.graph.output_node().args[0]
    if any(not isinstance(results[user.args[1]], fx.Node) and user.users for user in node.users):
        return False
    return len(inner) == len(node.args) - 2 and all(
        map(_alike, inner, node.args[2:])) and all("val" in n.meta for n in body.graph.nodes
                                                   if n.op == "call_function")


def _alike(inner: fx.Node, given) -> bool:
    """Whether a value is what the region was traced with, symbols included."""
    said = inner.meta.get("val")
    value = given.meta.get("val") if isinstance(given, fx.Node) else given
    if not isinstance(said, torch.Tensor) or not isinstance(value, torch.Tensor):
        return str(said) == str(value)
    return said.dtype == value.dtype and said.device == value.device and (
        str((said.shape, said.stride())) == str((value.shape, value.stride())))


def _inline_one(module: fx.GraphModule, call: fx.Node) -> None:
    graph, name = module.graph, call.args[0].target
    body = getattr(module, name)
    values = dict(zip(body.graph.find_nodes(op="placeholder"), call.args[2:], strict=True))
    with graph.inserting_before(call):
        for node in body.graph.find_nodes(op="get_attr"):
            path = f"{name}_{node.target}".replace(".", "_")
            held = body
            for part in node.target.split("."):
                held = getattr(held, part)
            if isinstance(held, torch.Tensor):
                module.register_buffer(path, held, persistent=False)
            else:
                setattr(module, path, held)
            values[node] = graph.get_attr(path)
            values[node].meta = dict(node.meta)
        results = graph.graph_copy(body.graph, values)
    for user in list(call.users):
        if user.users:
            user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    region = call.args[0]
    graph.erase_node(call)
    if not region.users:
        graph.erase_node(region)

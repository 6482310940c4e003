"""Rewrites of a captured graph before it is partitioned. None changes what it computes."""

import sympy
import torch
from torch import fx

from . import compat
from .attention_state import forget_random_state
from .draws import draw_apart
from .fx_nodes import is_getitem, is_size_arithmetic
from .placement import make_where_read
from .scalars import mark_host_scalars
from .sizes import Sizes
from .strides import is_dense

aten = torch.ops.aten


def prepare(module: fx.GraphModule, user_outputs: int) -> None:
    """Runs the rewrites below, in place. The first `user_outputs` results are the caller's, the
    others are kept for the backward graph."""
    drop_copies_of_constants(module.graph)
    forget_random_state(module.graph)
    compute_sizes_from_inputs(module.graph)
    draw_apart(module.graph)
    keep_returned_views(module.graph, user_outputs)
    mark_host_scalars(module.graph)
    make_where_read(module)
    module.graph.lint()


def drop_copies_of_constants(graph: fx.Graph) -> None:
    """A constant is copied so that nobody can change it. In a functional graph nobody does; the
    caller may, so what he is given, or views of it, stays a copy."""
    copies = [node for op in (aten.lift_fresh_copy.default, aten.lift_fresh.default)
              for node in graph.find_nodes(op="call_function", target=op)
              if node.args[0].op == "get_attr"]
    for node in copies:
        node.target = aten.lift_fresh_copy.default
    returned = {_base(node) for node in graph.output_node().all_input_nodes}
    for node in copies:
        if node in returned:
            continue
        node.args[0].meta.setdefault("val", node.meta.get("val"))
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


def compute_sizes_from_inputs(graph: fx.Graph) -> None:
    """Sizes read off intermediate tensors are computed from the inputs, so that no engine waits for
    another's result only to learn a size."""
    sizes = None
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if not is_size_arithmetic(node) or not isinstance(value, torch.SymInt):
            continue
        if all(n.op == "placeholder" for n in node.all_input_nodes):
            continue
        sizes = sizes or Sizes(graph)
        replacement = sizes.make(value)
        if replacement is None or replacement is node:
            continue
        node.replace_all_uses_with(replacement) if isinstance(replacement, fx.Node) else (
            _replace_by_number(node, replacement))
        graph.erase_node(node)


def _replace_by_number(node: fx.Node, number: int) -> None:
    for user in list(node.users):
        user.args = fx.node.map_arg(user.args, lambda n: number if n is node else n)
        user.kwargs = fx.node.map_arg(user.kwargs, lambda n: number if n is node else n)


def pass_missing_sizes(module: fx.GraphModule, name: str) -> None:
    """Gives the sub-module `name` each symbol that it uses and that none of its arguments shows."""
    body = getattr(module, name)
    placeholders = body.graph.find_nodes(op="placeholder")
    shown = {size.free_symbols.pop() for node in placeholders for size in _sizes_of(node)
             if len(size.free_symbols) == 1 and (size.is_Symbol or isinstance(
                 node.meta["val"], torch.Tensor) and sympy.degree(size) == 1)}
    used = {symbol for node in body.graph.nodes for size in _sizes_of(node)
            for symbol in size.free_symbols}
    missing = sorted(used - shown, key=str)
    if not missing:
        return
    (call,) = (n for n in module.graph.find_nodes(op="call_module") if n.target == name)
    sizes = Sizes(module.graph)
    for symbol in missing:
        outer = sizes.make_symbol(symbol)
        if outer is None:
            continue
        with body.graph.inserting_after(placeholders[-1]):
            inner = body.graph.placeholder(f"size_{symbol}")
        inner.meta["val"] = outer.meta["val"]
        placeholders.append(inner)
        call.args = (*call.args, outer)
    body.recompile()
    module.recompile()


def _sizes_of(node: fx.Node) -> list[sympy.Expr]:
    """Symbolic sizes of what a node makes."""
    value = node.meta.get("val")
    found = []
    for item in value if isinstance(value, (tuple, list)) else (value,):
        dims = item.shape if isinstance(item, torch.Tensor) else (item,)
        found += [d.node.expr for d in dims if isinstance(d, torch.SymInt)]
    return found


def keep_returned_views(graph: fx.Graph, user_outputs: int) -> None:
    """Gives the outputs nodes of their own where PyTorch itself has to make them: views of an
    input, which share its memory, and, among the first `user_outputs`, views with gaps or overlaps
    between their elements (expanded or sliced), because an engine's outputs are dense."""
    output = graph.output_node()
    copies: dict[fx.Node, fx.Node] = {}
    results = list(output.args[0])
    for i, node in enumerate(results):
        if not isinstance(node, fx.Node) or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        of_input = _base(node).op == "placeholder"
        if node is not _base(node) and (of_input or (i < user_outputs and not _dense(node))):
            with graph.inserting_before(output):
                results[i] = _copy_of_view(graph, node, of_input, copies)
    if copies:
        output.args = (tuple(results),)
        for node in sorted(copies, key=[*graph.nodes].index, reverse=True):
            if not node.users:
                graph.erase_node(node)


def _viewed(node: fx.Node) -> fx.Node | None:
    """The node that `node` is a view of."""
    if is_getitem(node):
        return node.args[0] if _is_view(node.args[0]) else None
    return node.args[0] if _is_view(node) else None


def _base(node: fx.Node) -> fx.Node:
    while (viewed := _viewed(node)) is not None:
        node = viewed
    return node


def _dense(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and (compat.depends_on_data(value) or is_dense(value))


def _copy_of_view(graph, node, of_input, copies):
    """Copies a chain of views down to its base, or to a value that an engine can return."""
    viewed = _viewed(node)
    if viewed is None or (not of_input and _dense(node)):
        return node
    if node not in copies:
        inner = _copy_of_view(graph, viewed, of_input, copies)
        copy = graph.node_copy(node, lambda n: inner if n is viewed else n)
        copy.meta["torch_vulkan_keep_view"] = True
        copies[node] = copy
    return copies[node]


def _is_view(node: fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    arguments = node.target._schema.arguments
    return any(a.alias_info is not None and not a.alias_info.is_write for a in arguments)

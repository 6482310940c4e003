"""Rewrites of a captured graph before it is partitioned. They keep what it computes, except that
dynamic_scales.py may round a value next to a half to the other side."""

import sympy
import torch
from torch import fx

from .._torch.guards import canonical
from .._torch.sizes import Sizes
from .attention_state import forget_random_state
from .decoders import recognise_decoders
from .dynamic_scales import narrow_dynamic_scales
from .fx_nodes import is_size_arithmetic
from .placement import make_where_read
from .random_ops import detach_random_ops
from .returned_views import Views, base_of, keep_returned_views
from .scalars import mark_host_scalars

aten = torch.ops.aten


def prepare(module: fx.GraphModule, user_outputs: int | None, kind: str = "inference",
            views: Views | None = None) -> None:
    """Runs the rewrites below, in place.

    Args:
        module: the captured graph.
        user_outputs: so many results, the first, are the caller's, the others are kept for the
            backward graph. None: an engine may make all of them, even those that are views.
        kind: as of keep_returned_views.
        views: what AOTAutograd says of results that are views.
    """
    drop_copies_of_constants(module.graph)
    recognise_decoders(module)
    narrow_dynamic_scales(module.graph)
    forget_random_state(module.graph)
    compute_sizes_from_inputs(module.graph)
    detach_random_ops(module.graph)
    if user_outputs is not None:
        keep_returned_views(module.graph, user_outputs, kind, views or Views())
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
    returned = {base_of(node) for node in graph.output_node().all_input_nodes}
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
    by_data = set()
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if _is_sized_by_data(node) or any(n in by_data for n in node.all_input_nodes):
            by_data.add(node)
        if not is_size_arithmetic(node) or not isinstance(value, torch.SymInt):
            continue
        if all(n.op == "placeholder" for n in node.all_input_nodes):
            continue
        if any(n in by_data for n in node.all_input_nodes):
            continue  # PyTorch checks what it turns out to be
        sizes = sizes or Sizes(graph)
        replacement = sizes.make(value)
        if replacement is None or replacement is node:
            continue
        node.replace_all_uses_with(replacement) if isinstance(replacement, fx.Node) else (
            _replace_by_number(node, replacement))
        graph.erase_node(node)


def _is_sized_by_data(node: fx.Node) -> bool:
    """True for nonzero and its like, also where the size was promised to be some number."""
    if node.target is aten.index.Tensor:  # by a mask
        return any(i is not None and getattr(i.meta.get("val"), "dtype", torch.bool) in (
            torch.bool, torch.uint8) for i in node.args[1])
    tags = getattr(node.target, "tags", ())
    return torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags


def _replace_by_number(node: fx.Node, number: int) -> None:
    for user in list(node.users):
        user.args = fx.node.map_arg(user.args, lambda n: number if n is node else n)
        user.kwargs = fx.node.map_arg(user.kwargs, lambda n: number if n is node else n)


def pass_sizes(module: fx.GraphModule, name: str, symbols: list[sympy.Symbol]) -> list[int]:
    """Positions among the arguments of the sub-module `name` where it is given these symbols; what
    it is not given yet it is given last. Raises RuntimeError where no input shows a symbol."""
    body = getattr(module, name)
    placeholders = body.graph.find_nodes(op="placeholder")
    given = {canonical(value): i for i, node in enumerate(placeholders)
             if isinstance(value := node.meta.get("val"), torch.SymInt)}
    (call,) = (n for n in module.graph.find_nodes(op="call_module") if n.target == name)
    sizes = Sizes(module.graph)
    for symbol in symbols:
        if symbol in given:
            continue
        outer = sizes.make_symbol(symbol)
        if outer is None:
            raise RuntimeError(f"no input of the engine determines the size {symbol}")
        with (body.graph.inserting_after(placeholders[-1]) if placeholders else
              body.graph.inserting_before(next(iter(body.graph.nodes)))):
            inner = body.graph.placeholder(f"size_{symbol}")
        inner.meta["val"] = outer.meta["val"]
        given[symbol] = len(placeholders)
        placeholders.append(inner)
        call.args = (*call.args, outer)
    body.recompile()
    module.recompile()
    return [given[symbol] for symbol in symbols]

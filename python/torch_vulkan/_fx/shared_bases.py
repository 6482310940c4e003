"""Arguments that share memory and are written to are one argument to AOTAutograd, which names
places in its storage: what they are views of, or all of the storage. No guard is about its size,
and more than those places is of no use to a graph."""

from typing import NamedTuple

import torch
from torch import fx

aten = torch.ops.aten


class _Places(NamedTuple):
    """What a graph makes of such an argument: nodes that are the argument itself, written to or
    not, and up to which element of the storage it is looked at."""

    nodes: list[fx.Node]
    reach: int


def narrow_bases(graph: fx.Graph) -> dict[int, int]:
    """Makes such arguments as small as a graph looks at them, from the start of their storage.
    Returns position → number of elements."""
    sizes = {}
    for i, node in enumerate(graph.find_nodes(op="placeholder")):
        places = _places(node)
        if places is None:
            continue
        sizes[i] = places.reach
        for same in places.nodes:
            same.meta["val"] = same.meta["val"].new_empty((places.reach,))
            same.meta.pop("tensor_meta", None)
    return sizes


def narrowed(call, sizes: dict[int, int]):
    """`call`, which takes its arguments as a list, with as much of these as `narrow_bases` says."""
    def narrowed_call(args):
        for i, size in sizes.items():
            args[i] = args[i].as_strided((size,), (1,), 0)
        return call(args)

    narrowed_call._boxed_call = True
    return narrowed_call


def _places(argument: fx.Node) -> _Places | None:
    """None for an argument of which anything else is asked."""
    value = argument.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    nodes, reach, last = [argument], 0, None
    for node in nodes:  # which grow
        for user in node.users:
            if user.target is aten.copy_.default and user.args[0] is argument and not user.users:
                last = user.args[1]
                continue
            if user.target is aten.as_strided_scatter.default and user.args[1] is not node:
                nodes.append(user)
                where = user.args[2:5]
            elif user.target is aten.as_strided.default:
                where = user.args[1:4]
            else:
                return None
            end = _end(*where) if len(where) == 3 else None
            if end is None:
                return None
            reach = max(reach, end)
    return _Places(nodes, reach) if last in nodes[1:] and reach else None


def _end(sizes, strides, offset) -> int | None:
    """The first element behind all of a view's; None where it is not known."""
    if not all(isinstance(number, int) for number in (*sizes, *strides, offset)):
        return None
    if 0 in sizes:
        return offset
    return offset + 1 + sum(
        (size - 1) * stride for size, stride in zip(sizes, strides, strict=True))

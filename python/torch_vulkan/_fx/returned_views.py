"""Which results PyTorch makes as views: those that share memory in eager mode share it here, too.

An engine writes each of its outputs into a buffer of its own. So results that are views are made of
their base, behind all engines, by the program's own view operators (docs/design/0016).
"""

from dataclasses import dataclass, field

import torch
from torch import fx

from .._torch import compat
from .._torch.strides import is_dense, same
from .fx_nodes import is_getitem

aten = torch.ops.aten
# What has the strides that the program says, with gaps, too.
_LAID_OUT = (aten.empty_strided.default, aten.new_empty_strided.default, aten.copy.default,
             aten.slice_scatter.default, aten.select_scatter.default, aten.diagonal_scatter.default,
             aten.as_strided_scatter.default)
_HELD = ("placeholder", "get_attr")  # memory of others
_KEPT = "torch_vulkan_keep_view"


@dataclass(frozen=True)
class Views:
    """What AOTAutograd says of results that are views, by their positions.

    Attributes:
        of_arguments: result → what it is a view of, and the argument that it is to be a view of:
            whose value the former is, or becomes behind the graph. The view has its strides and
            offset then.
        of_autograd: those that autograd makes views of what they are views of.
    """

    of_arguments: dict[int, tuple[fx.Node, int]] = field(default_factory=dict)
    of_autograd: set[int] = field(default_factory=set)


def keep_returned_views(graph: fx.Graph, user_outputs: int, kind: str, views: Views) -> None:
    """Gives the views among the results nodes of their own, which no engine takes: all among the
    first `user_outputs`, but for those that nobody can tell from a tensor of their own, and among
    those that are kept for the backward graph what costs nothing. Of gradients, which share memory
    with nobody, only those with gaps or overlaps between their elements.

    AOTAutograd tells autograd of each result of a forward graph, and makes those anew that autograd
    is to know as views, but for those that nobody may write to (`of_autograd`). The others are
    detached: as views of another result they would have its gradient, and a write into one would
    be an error of the other. A view of an argument, of which nothing but its place is asked, must
    not tell what the argument is a view of: the program may have given that one other memory
    (`x.data = y`).

    kind: "forward", "backward" (whose results are gradients) or "inference".
    """
    output = graph.output_node()
    results = list(output.args[0])
    arguments = graph.find_nodes(op="placeholder")
    copies: dict[tuple, fx.Node] = {}
    detached: dict[fx.Node, fx.Node] = {}  # what is returned twice stays one tensor
    for i, (value, argument) in views.of_arguments.items():
        if _are_alike(value, arguments[argument]):
            results[i] = _copy_of_view(graph, results[i], value, arguments[argument], copies)
            if kind == "inference" and results[i].op not in _HELD:
                results[i] = _detached(graph, results[i], detached)
        elif value.op not in _HELD and not _begins_dense(results[i]):
            raise NotImplementedError(f"result {i} is a view of argument {argument} that cannot be "
                                      "traced back to it")
    kept = _kept_gradients(results) if kind == "backward" else _kept(results, user_outputs)
    for i, node in enumerate(results):
        if node in kept:
            results[i] = _copy_of_view(graph, node, kept[node], kept[node], copies)
            if kind == "forward" and i < user_outputs and i not in views.of_autograd:
                results[i] = _detached(graph, results[i], detached)
    output.args = (tuple(results),)
    if copies:
        places = [*graph.nodes]
        for node in sorted({node for node, _ in copies}, key=places.index, reverse=True):
            if not node.users:
                graph.erase_node(node)


def views_of_arguments(graph: fx.Graph, views: dict[int, int], copied: dict[int, int],
                       otherwise: set[int]) -> dict[int, tuple[fx.Node, int]]:
    """What `Views.of_arguments` is. views: result → argument; copied: argument → the result that is
    copied over it; otherwise: results that lie in the graph otherwise than in the program; all by
    position.

    Raises:
        NotImplementedError: such a result is computed, and not a view of what tells how it lies.
    """
    results, arguments = graph.output_node().args[0], graph.find_nodes(op="placeholder")
    last = {arguments[a]: results[i] for a, i in copied.items()}
    copies = graph.find_nodes(op="call_function", target=aten.copy_.default)
    last |= {node.args[0]: node.args[1] for node in copies}
    found = {}
    for i, a in views.items():
        if results[i] in copies:
            continue  # it is the argument
        chain = chain_of(results[i])
        value = last.get(arguments[a])
        if value not in chain and chain[-1].op not in _HELD and i in otherwise:
            raise NotImplementedError(f"result {i} is a view of argument {a} that cannot be traced "
                                      "back to it")
        found[i] = (value if value in chain else chain[-1], a)
    untraced = otherwise - views.keys()
    if untraced:
        raise NotImplementedError(f"result {min(untraced)} is a view that cannot be traced back to "
                                  "what it is a view of")
    return found


def base_of(node: fx.Node) -> fx.Node:
    """The node whose memory a node's result is."""
    return chain_of(node)[-1]


def chain_of(node: fx.Node, through_writes: bool = False) -> list[fx.Node]:
    """A node, what it is a view of, and so on; `through_writes`: in a graph that writes in place,
    what is written to, too."""
    chain = [node]
    while (last := _viewed(chain[-1]) or (_written(chain[-1]) if through_writes else None)):
        chain.append(last)
    return chain


def is_kept(node: fx.Node) -> bool:
    """Whether `keep_returned_views` gave a node to PyTorch."""
    return node.meta.get(_KEPT, False)


def _kept_gradients(results) -> dict[fx.Node, fx.Node]:
    return {node: base for node in results if isinstance(node, fx.Node) and is_tensor(node)
            and (base := base_of(node)) is not node
            and (base.op in _HELD or not is_dense(node.meta["val"]))}


def _kept(results, user_outputs: int) -> dict[fx.Node, fx.Node]:
    """view → the node that it is made of."""
    tensors = [r for r in results if isinstance(r, fx.Node) and is_tensor(r)]
    users = {r for r in results[:user_outputs] if isinstance(r, fx.Node)}
    of_base: dict[fx.Node, set[fx.Node]] = {}
    for node in tensors:
        of_base.setdefault(base_of(node), set()).add(node)
    kept = {}
    for base, nodes in of_base.items():
        shown = nodes & users
        alone = len(shown) == 1
        for node in nodes - {base}:
            if base.op in _HELD or (
                    node in shown and not (alone and _is_all_of(node, base))):
                kept[node] = base
        if shown:
            _keep_strides(base)
        if base in nodes or any(node in kept for node in nodes):
            kept |= {node: base for node in nodes - {base} if _is_all_of(node, base)}
    return kept


def _keep_strides(node: fx.Node) -> None:
    """Gives PyTorch what lays out a result with gaps, which no engine writes."""
    while isinstance(node, fx.Node) and (node.target in _LAID_OUT or is_view(node)) and not (
            is_dense(node.meta["val"])):
        node.meta[_KEPT] = True
        node = node.args[0]


def is_tensor(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def _viewed(node: fx.Node) -> fx.Node | None:
    """The node that `node` is a view of."""
    if is_getitem(node):
        return node.args[0].args[0] if is_view(node.args[0]) else None
    return node.args[0] if is_view(node) else None


def _written(node: fx.Node) -> fx.Node | None:
    """What an operator that writes in place returns."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None
    first = node.target._schema.arguments[:1]
    writes = first and first[0].alias_info is not None and first[0].alias_info.is_write
    return node.args[0] if writes else None


def is_view(node: fx.Node) -> bool:
    """True for an operator whose results share the memory of its argument."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    if node.target is aten._unsafe_view.default:
        return True  # AOTAutograd hides views from autograd so; the memory is one all the same
    arguments = node.target._schema.arguments
    return any(a.alias_info is not None and not a.alias_info.is_write for a in arguments)


def _is_all_of(node: fx.Node, base: fx.Node) -> bool:
    """Whether a view is dense and shows all elements of its base, as they are."""
    view, whole = node.meta["val"], base.meta["val"]
    if compat.depends_on_data(view) or compat.depends_on_data(whole):
        return True  # as eager lays them out, natively
    return (same(view.numel(), whole.numel()) and is_dense(view) and is_dense(whole)
            and view.dtype == whole.dtype and view.is_conj() == whole.is_conj()
            and view.is_neg() == whole.is_neg())


def _begins_dense(node: fx.Node) -> bool:
    """Whether a result has the strides and the offset that an engine gives it."""
    value = node.meta["val"]
    return is_dense(value) and same(value.storage_offset(), 0)


def _are_alike(node: fx.Node, other: fx.Node) -> bool:
    one, two = node.meta["val"], other.meta["val"]
    return one.dtype == two.dtype and one.dim() == two.dim() and all(
        a == b for a, b in zip(one.shape, two.shape) if isinstance(a, int) and isinstance(b, int))


def _detached(graph: fx.Graph, node: fx.Node, made: dict[fx.Node, fx.Node]) -> fx.Node:
    if node not in made:
        with graph.inserting_before(graph.output_node()):
            made[node] = graph.call_function(aten.detach.default, (node,))
        made[node].meta.update(node.meta)
        made[node].meta[_KEPT] = True
    return made[node]


def _copy_of_view(graph: fx.Graph, node: fx.Node, value: fx.Node, base: fx.Node, copies) -> fx.Node:
    """Copies a chain of views of `value`, as views of `base`."""
    if node is value:
        return base
    if is_kept(node):
        return node
    if (node, base) not in copies:
        viewed = node.args[0]
        inner = _copy_of_view(graph, viewed, value, base, copies)
        with graph.inserting_before(graph.output_node()):
            copy = graph.node_copy(node, lambda n: inner if n is viewed else n)
        copy.meta[_KEPT] = True
        copies[node, base] = copy
    return copies[node, base]

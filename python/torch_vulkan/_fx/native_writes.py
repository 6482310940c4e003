"""Writes into inputs that PyTorch makes (docs/design/0017-writing-in-place.md).

Behind a functional graph, `copy_(input, value)` copies all of the input, and what makes the value
has copied it once before. Where the value is the input changed by operators that PyTorch runs
(`index_put`, `slice_scatter`, `mul`, …), these change the input's memory instead, in their order.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import fx

from .._torch.strides import same
from .fx_nodes import flat, is_getitem, is_size_arithmetic
from .mutation import counted_elsewhere, is_write, refuse_inference
from .returned_views import base_of, is_view

aten = torch.ops.aten
# What replaces a part of its first operand by its second one, and what shows that part.
_PARTS = {aten.slice_scatter.default: aten.slice.Tensor,
          aten.select_scatter.default: aten.select.int,
          aten.diagonal_scatter.default: aten.diagonal.default}


class _View(NamedTuple):
    target: torch._ops.OpOverload
    args: tuple
    kwargs: tuple

    def of(self, graph: fx.Graph, node: fx.Node) -> fx.Node:
        made = graph.call_function(self.target, (node, *self.args), dict(self.kwargs))
        given, named = fx.node.map_arg((made.args, made.kwargs), lambda n: n.meta["val"])
        with node.meta["val"].fake_mode:
            made.meta["val"] = self.target(*given, **named)
        return made


class _Shown(NamedTuple):
    """That a value lies in the input's memory, behind the first `version` changes, at what the
    views `place` show of it."""

    place: tuple[_View, ...]
    version: int


class _Change(NamedTuple):
    """A change of the memory at `place`, where `node` is in the graph: target(memory, *args)."""

    node: fx.Node
    place: tuple[_View, ...]
    target: torch._ops.OpOverload
    args: tuple
    kwargs: dict


class _CannotLie(Exception):
    """The value has to be made beside the input."""


@fx.node.has_side_effect
def own_memory(tensor: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    """What is changed in place of an input: the input, or a copy where one of `others` shows some
    of its memory, because that is read as it was before the call."""
    refuse_inference(tensor)
    wrapped = map(torch._C._functorch.is_functorch_wrapped_tensor, (tensor, *others))
    if any(wrapped) or any(_share(tensor, other) for other in others):
        return tensor.clone()
    return tensor


def _share(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.device != b.device or a.is_meta or b.layout != torch.strided:
        return False
    (first, last), (begin, end) = _span(a), _span(b)
    return first < end and begin < last


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    if not tensor.numel():
        return 0, 0
    first = tensor.data_ptr()
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + extent * tensor.itemsize


@fx.node.has_side_effect
def change(target, memory: torch.Tensor, *args, **kwargs) -> None:
    """Calls an operator that changes its first argument; uncounted, as mutation.write_over is."""
    with torch.no_grad(), counted_elsewhere(memory):
        target(memory, *args, **kwargs)


def write_natively(module: fx.GraphModule) -> set[str]:
    """Lets PyTorch's operators write into inputs where they would make new values of them, which a
    copy follows. All readers of the older contents have to run before.

    Args:
        module: a graph whose blocks are calls of engines (mutation.attach_writes).

    Returns:
        The names of the inputs that are not copied any more.
    """
    found = set()
    writes = [node for node in module.graph.nodes if is_write(node)]
    for write in writes:
        if [other.args[0] for other in writes].count(write.args[0]) > 1:
            continue
        try:
            plan = _Plan(module, write)
        except _CannotLie:
            continue
        plan.follow()
        found.add(write.args[0].name)
    if found:
        module.graph.lint()
        module.recompile()
    return found


class _Plan:
    """How the value of one write comes to lie in the input's memory by changes of it."""

    def __init__(self, module: fx.GraphModule, write: fx.Node):
        """Raises _CannotLie."""
        self._module, self._graph, self._write = module, module.graph, write
        self._input, value = write.args
        self._order = {node: i for i, node in enumerate(self._graph.nodes)}
        self._shown = {self._input: _Shown((), 0)}
        self._changes: list[_Change] = []
        self._parts: set[fx.Node] = set()
        if not isinstance(value, fx.Node) or not self._lies(value, ()) or not self._changes:
            raise _CannotLie
        places = [self._order[c.node] for c in self._changes]
        if any(a >= b for a, b in zip(places, places[1:], strict=False)):
            raise _CannotLie
        self._check_readers()

    def _lies(self, value: fx.Node, place: tuple[_View, ...]) -> bool:
        """Whether a value lies at a place of the memory, or comes to lie there by changes."""
        if (shown := self._of(value)) is not None:
            return shown == (place, len(self._changes))
        if value.op != "call_function" or not value.args or (
                not isinstance(value.args[0], fx.Node)) or not _is_like_its_first(value):
            return False
        if value.target in _PARTS:
            first, part, *rest = value.args
            view = _View(_PARTS[value.target], tuple(rest), tuple(value.kwargs.items()))
            if not self._lies(first, place):
                return False
            self._put(part, value, (*place, view))
            self._parts.add(value)
        elif (twin := _in_place(value.target)) is not None:
            if not self._lies(value.args[0], place):
                return False
            self._changes.append(_Change(value, place, twin, value.args[1:], value.kwargs))
        else:
            return False
        self._shown[value] = _Shown(place, len(self._changes))
        return True

    def _put(self, part: fx.Node, scatter: fx.Node, place: tuple[_View, ...]) -> None:
        """Makes a part lie at its place: it is changed there, or else copied there."""
        before = [*self._changes], {**self._shown}, {*self._parts}
        if not isinstance(part, fx.Node) or not self._lies(part, place):
            self._changes, self._shown, self._parts = before
            self._changes.append(_Change(scatter, place, aten.copy_.default, (part,), {}))

    def _of(self, value: fx.Node) -> _Shown | None:
        """Where a value lies already."""
        if value in self._shown:
            return self._shown[value]
        if value.op != "call_function" or value.target not in _PARTS.values():
            return None
        if (viewed := self._of(value.args[0])) is None:
            return None
        view = _View(value.target, value.args[1:], tuple(value.kwargs.items()))
        return _Shown((*viewed.place, view), viewed.version)

    def _check_readers(self) -> None:
        """Nobody reads what lies in the memory behind the change that follows on it.

        Raises:
            _CannotLie: somebody does, or may.
        """
        own = {change.node for change in self._changes}
        ends = [self._order[change.node] for change in self._changes]
        for value, (_, version) in self._shown.items():
            end = ends[version] if version < len(ends) else len(self._order)
            for alias in _aliases(self._module, value, stop=self._shown):
                for user in alias.users:
                    if user is self._write or user.target is own_memory or is_view(user) or (
                            user in own | self._parts and _reads_first(user, alias)):
                        continue
                    if user.op == "output":
                        if version:
                            raise _CannotLie
                    elif self._order[user] >= end or not _is_known(user):
                        raise _CannotLie
            if version and value.users.keys() - own - self._parts - {self._write} and (
                    not _has_strides_of(self._input, value, self._shown[value].place)):
                raise _CannotLie

    def _others(self) -> list[fx.Node]:
        """The arguments that are read, or written, behind the first change."""
        first = self._order[self._changes[0].node]
        return [node for node in self._graph.find_nodes(op="placeholder")
                if node is not self._input and isinstance(node.meta.get("val"), torch.Tensor)
                and any(user.op != "output" and self._order[user] >= first
                        for alias in _aliases(self._module, node) for user in alias.users)]

    def follow(self) -> None:
        """Rewrites the graph."""
        graph = self._graph
        with graph.inserting_before(self._changes[0].node):
            memory = graph.call_function(own_memory, (self._input, *self._others()))
        memory.meta["val"] = self._input.meta["val"]

        def at(place):
            return functools.reduce(lambda node, view: view.of(graph, node), place, memory)

        for node, place, target, args, kwargs in self._changes:
            with graph.inserting_before(node):
                graph.call_function(change, (target, at(place), *args), kwargs)
        values = [value for value, shown in self._shown.items() if shown.version]
        for value in sorted(values, key=self._order.get):
            if value.users:
                with graph.inserting_before(value):
                    value.replace_all_uses_with(at(self._shown[value].place))
        for value in sorted(values, key=self._order.get, reverse=True):
            graph.erase_node(value)


def _reads_first(user: fx.Node, alias: fx.Node) -> bool:
    """Whether the first operand is all that is read of `alias`."""
    return user.args[0] is alias and alias not in flat([*user.args[1:], *user.kwargs.values()])


def _aliases(module: fx.GraphModule, value: fx.Node, stop=()) -> Iterator[fx.Node]:
    """A value, and whatever shares its memory, or may; `stop`: what is looked at for itself."""
    waiting, seen = [value], {value}
    for node in waiting:
        yield node
        for user in node.users:
            shares = is_view(user) or is_getitem(user) or (
                user.op == "call_module" and node in _handed_through(module, user))
            if shares and user not in seen and user not in stop:
                seen.add(user)
                waiting.append(user)


def _handed_through(module: fx.GraphModule, call: fx.Node) -> set[fx.Node]:
    """The arguments of which a block, run natively, may give views back."""
    block = module.get_submodule(call.target)
    body = getattr(block, "native", block).graph
    given = dict(zip(body.find_nodes(op="placeholder"), call.args, strict=False))
    results = flat(body.output_node().args[0])
    return {given[base] for result in results if isinstance(result, fx.Node)
            and (base := base_of(result)) in given}


def _is_known(user: fx.Node) -> bool:
    """Whether what a node returns shares no memory with what it reads but where _aliases sees."""
    if user.op == "call_module" or is_getitem(user) or is_size_arithmetic(user) or is_write(user):
        return True
    if user.target is change:
        return True  # of another input, in a copy where that shares memory with what is read later
    if not isinstance(user.target, torch._ops.OpOverload) or user.target._schema.is_mutable:
        return False
    return is_view(user) or not torch._C._dispatch_has_kernel_for_dispatch_key(
        user.target.name(), "CompositeImplicitAutograd")


def _is_like_its_first(node: fx.Node) -> bool:
    """Whether a result has the size and the type of the first operand, for all sizes."""
    value, first = node.meta.get("val"), node.args[0].meta.get("val")
    return all(isinstance(v, torch.Tensor) and v.layout == torch.strided for v in (value, first)) \
        and value.dtype == first.dtype and value.device == first.device and (
            value.dim() == first.dim()) and all(map(same, value.shape, first.shape))


def _has_strides_of(tensor: fx.Node, value: fx.Node, place: tuple[_View, ...]) -> bool:
    """Whether a value lies in the graph as it does in the memory of `tensor`: what reads it may go
    by its strides."""
    mine, its = value.meta["val"], tensor.meta["val"]
    return not place and all(map(same, mine.stride(), its.stride()))


@functools.cache
def _in_place(target) -> torch._ops.OpOverload | None:
    """The operator that leaves in its first argument what `target` returns."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    given = target._schema.arguments[:1]
    if not given or given[0].alias_info is not None:
        return None  # a view, whose twin changes how its tensor lies
    name = target._schema.name.removeprefix("aten::").removesuffix("_functional")
    packet = getattr(aten, f"{name}_", None)
    if packet is None or len(target._schema.returns) != 1:
        return None
    for overload in packet.overloads():
        twin = getattr(packet, overload)
        first, *rest = twin._schema.arguments
        if _signature(twin) == _signature(target) and first.alias_info is not None and (
                first.alias_info.is_write) and all(a.alias_info is None for a in rest):
            return twin
    return None


def _signature(target) -> list[tuple]:
    return [(a.name, str(a.type), a.kwarg_only) for a in target._schema.arguments]

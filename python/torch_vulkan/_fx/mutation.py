"""Inputs that a graph writes to (docs/design/0017-writing-in-place.md).

AOTAutograd leaves `copy_(input, value)` behind a functional graph. The partitioner sees the values
as results of the graph; when the engines are known, an engine that computes such a value is given
the write, too, where nobody reads the input behind it. It then changes the input's memory itself.
"""

import contextlib
import operator
from dataclasses import dataclass

import torch
from torch import fx

from .._base.dtypes import KINDS, NARROWED
from .._torch.observed_ranges import resizes
from .._torch.other_storage import counts_writes
from .._torch.strides import is_dense, lies_within, may_overlap, same
from .fx_nodes import is_getitem, op_name
from .refusals import WholeGraph
from .returned_views import base_of, is_view
from .schema import is_plain

MAY_OVERLAP = "has, or may have, elements that overlap in memory"


@dataclass
class Write:
    """A value that a graph writes over an input: by an engine, or else by PyTorch, for a reason."""

    target: fx.Node
    engine: str | None = None
    reason: str = ""


_COPY = torch.ops.aten.copy_.default
_OBSERVES = torch.ops.aten._fused_moving_avg_obs_fq_helper_functional.default
_SCATTER_BY_PLACE = torch.ops.aten.as_strided_scatter.default
_READS_BY_PLACE = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)


@fx.node.has_side_effect
def write_over(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Writes, uncounted: AOTAutograd counts what its graph writes, once. It calls the graph where
    PyTorch does not look at what is written."""
    if value is tensor:
        return  # changed where it lies (native_writes.py)
    refuse_inference(tensor)
    with torch.no_grad(), counted_elsewhere(tensor):
        tensor.copy_(value)


def counted_elsewhere(tensor: torch.Tensor):
    """While it lasts, writes into a tensor are not counted."""
    return torch.autograd._unsafe_preserve_version_counter(tensor) if (
        counts_writes(tensor)) else contextlib.nullcontext()


def refuse_inference(tensor: torch.Tensor) -> None:
    """Raises RuntimeError for a tensor that may be written in inference mode alone."""
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not "
                           "allowed: clone it first")


def refuse_overlaps(graph: fx.Graph, written: set[int]) -> None:
    """A write into a tensor of which several elements are one number in memory changes what the
    program did not name. The functional graph of it is right where each operator keeps the overlap,
    which engines, that read and write dense tensors, do not. Nor does a functional graph know of
    elements beside a tensor that as_strided shows: what is written there is lost, and a value that
    is computed has none.

    Args:
        written: positions of the arguments that the graph changes.

    Raises:
        WholeGraph: the graph has such a write, or reads beside a value.
    """
    changed = [node for i, node in enumerate(graph.find_nodes(op="placeholder")) if i in written]
    refuse_overlapping(node.meta.get("val") for node in changed)
    moved = _moved_values(graph, [node for node in changed
                                  if not _begins_its_storage(node.meta.get("val"))])
    for node in graph.find_nodes(op="call_function", target=_SCATTER_BY_PLACE):
        sizes, strides, offset = _window(node, 2)
        if may_overlap(sizes, strides):
            raise WholeGraph(f"a view that is written {MAY_OVERLAP}")
        _refuse_moved(node.args[0], moved)
        if not lies_within(node.args[0].meta["val"], sizes, strides, offset):
            raise WholeGraph("as_strided writes beside its tensor, or may do so")
    for target in _READS_BY_PLACE:
        for node in graph.find_nodes(op="call_function", target=target):
            viewed, base = node.args[0], base_of(node.args[0])
            if base.op != "call_function":
                continue
            _refuse_moved(viewed, moved)
            sizes, strides, offset = _window(node, 1)
            offset = viewed.meta["val"].storage_offset() if offset is None else offset
            if not lies_within(base.meta["val"], sizes, strides, offset):
                raise WholeGraph("as_strided reads beside its tensor, or may do so")


def refuse_resizes(graph: fx.Graph) -> None:
    """An observer's first batch gives its ranges, which begin without elements, one for each
    channel. A functional graph has the sizes that they began with.

    Raises:
        WholeGraph: the graph has such an observer.
    """
    for node in graph.find_nodes(op="call_function", target=_OBSERVES):
        given = dict(zip((a.name for a in _OBSERVES._schema.arguments), node.args, strict=False))
        given |= node.kwargs
        if resizes(given["running_min"].meta["val"], given.get("per_row_fake_quant", False)):
            raise WholeGraph("a quantisation observer gets its size from the first batch "
                             "(fused_moving_avg_obs_fake_quant by channel)")


def _moved_values(graph: fx.Graph, arguments: list[fx.Node]) -> set[fx.Node]:
    """Arguments that do not begin their storage, and the values that they have after each write,
    which begin theirs. An operator that writes in place has the value before as its first operand
    in a functional graph."""
    copied = {node.args[0]: node.args[1] for node in graph.find_nodes(
        op="call_function", target=_COPY)}
    if any(argument not in copied for argument in arguments):
        return set(graph.nodes)  # AOTAutograd writes them behind the graph: any value may be theirs
    return {*arguments, *(value for argument in arguments for value in _operands(copied[argument]))}


def _operands(node: fx.Node) -> list[fx.Node]:
    """A node, its first operand, the first of that, and so on."""
    chain = [node]
    while chain[-1].op == "call_function" and chain[-1].args and (
            isinstance(chain[-1].args[0], fx.Node)):
        chain.append(chain[-1].args[0])
    return chain


def _refuse_moved(node: fx.Node, moved: set[fx.Node]) -> None:
    chain = _operands(node)
    if base_of(node) in moved or node in moved or any(
            other.op == "placeholder" and other in moved for other in chain):
        raise WholeGraph("as_strided of an argument that is written and does not begin its storage")


def _begins_its_storage(value) -> bool:
    """The value that an argument has after a write begins its storage, wherever the argument does;
    as_strided counts from there."""
    return not isinstance(value, torch.Tensor) or value.layout != torch.strided or (
        is_dense(value) and same(value.storage_offset(), 0))


def _window(node: fx.Node, first: int) -> tuple:
    """Sizes, strides and offset among the arguments of as_strided and its like, from `first` on."""
    given = [*node.args[first:], None][:3]
    return tuple(fx.node.map_arg(given, lambda n: n.meta["val"]))


def refuse_overlapping(written) -> None:
    """The same of tensors that a graph changes; other values are passed over."""
    for value in written:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and may_overlap(
                value.shape, value.stride()):
            raise WholeGraph(f"an argument that is written {MAY_OVERLAP}")


def is_write(node: fx.Node) -> bool:
    """True for a node that writes a value over an input."""
    return node.op == "call_function" and node.target is write_over


def detach_writes(module: fx.GraphModule) -> list[str]:
    """Makes the values that a graph writes over its inputs its last results; returns the names of
    the inputs, in their order."""
    output = module.graph.output_node()
    writes = [node for node in module.graph.nodes if _is_whole_copy(node)]
    if writes:
        output.args = ((*output.args[0], *(node.args[1] for node in writes)),)
    names = [node.args[0].name for node in writes]
    for node in writes:
        node.replace_all_uses_with(node.args[0])  # results that are the input itself
        module.graph.erase_node(node)
    return names


def _is_whole_copy(node: fx.Node) -> bool:
    if node.target is not _COPY or node.kwargs or len(node.args) != 2:
        return False
    if any(user.op != "output" for user in node.users):
        return False
    if not all(isinstance(n, fx.Node) for n in node.args) or node.args[0].op != "placeholder":
        return False
    target, value = (n.meta.get("val") for n in node.args)
    if not all(isinstance(v, torch.Tensor) for v in (target, value)):
        return False
    return target.shape == value.shape and target.dtype == value.dtype and (
        target.device == value.device)


def attach_writes(module: fx.GraphModule, names: list[str], engines,
                  truncate: bool) -> list[Write]:
    """Undoes detach_writes in a graph whose blocks are calls of `engines`: what an engine computes
    it writes itself where it can, the rest PyTorch writes last."""
    if not names:
        return []
    output = module.graph.output_node()
    results = list(output.args[0])
    kept, values = results[:-len(names)], results[-len(names):]
    output.args = (tuple(kept),)
    inputs = {node.name: node for node in module.graph.find_nodes(op="placeholder")}
    with module.graph.inserting_before(output):
        writes = [module.graph.call_function(write_over, (inputs[name], value))
                  for name, value in zip(names, values, strict=True)]
    found = []
    for node in writes:
        write = Write(node.args[0])
        if not (reason := _unfit(*(n.meta["val"] for n in node.args), truncate)):
            write.engine, reason = _into_engine(module, node, engines)
        write.reason = reason
        found.append(write)
    module.graph.lint()
    module.recompile()
    return found


def _unfit(tensor: torch.Tensor, value: torch.Tensor, truncate: bool) -> str:
    """"" where an engine holds the tensor's elements as they are, and its sizes are the value's for
    all sizes, not only for those that guards let in (n, and 4 * (n // 4) of a view by type)."""
    if not is_plain(tensor) or tensor.layout != torch.strided:
        return "it is not a plain strided tensor"
    if tensor.dtype not in KINDS:
        return f"engines hold no {tensor.dtype}"
    if truncate and tensor.dtype in NARROWED:
        return f"truncate_long_and_double: engines hold no {tensor.dtype}"
    return "" if all(map(same, tensor.shape, value.shape)) else (
        "its sizes are the new value's for some sizes alone")


def _into_engine(module: fx.GraphModule, write: fx.Node, engines) -> tuple[str | None, str]:
    """(the engine that writes now, "") or (None, why none does)."""
    target, value = write.args
    if not isinstance(value, fx.Node) or value.target is not operator.getitem:
        return None, "no engine computes its new value"
    call, position = value.args
    if call.op != "call_module" or call.target not in engines:
        return None, "no engine computes its new value"
    if call.args.count(target) > 1:
        return None, f"{call.target} is given it twice"
    if reader := _read_behind(target, call, write):
        return None, f"{reader} shows it, or reads it behind {call.target}"
    body = getattr(module, call.target)
    results = list(body.graph.output_node().args[0])
    inner_value = results[position]
    if not isinstance(inner_value, fx.Node) or inner_value.op == "placeholder":
        return None, f"{call.target} is given its new value"
    with body.graph.inserting_before(body.graph.output_node()):
        body.graph.call_function(write_over, (_inner(body, call, target), inner_value))
    module.graph.erase_node(write)
    if all(user.op == "call_module" and user.target in engines for user in value.users):
        value.replace_all_uses_with(target)  # engines behind read what was written
        _drop_result(module, body, call, position)
    body.graph.lint()
    body.recompile()
    return call.target, ""


def _read_behind(target: fx.Node, call: fx.Node, write: fx.Node) -> str:
    """The node that reads the input, or a view of it, behind `call`, or `call` where it is handed a
    view; "" if there is none."""
    order = {node: i for i, node in enumerate(call.graph.nodes)}
    waiting = [target]
    for alias in waiting:
        for user in alias.users:
            if user is write or user.op == "output" or (user is call and alias is target):
                continue
            if is_view(user) or is_getitem(user):
                waiting.append(user)
            elif order[user] >= order[call]:
                return str(user.target) if user.op == "call_module" else op_name(user.target)
    return ""


def _inner(body: fx.GraphModule, call: fx.Node, target: fx.Node) -> fx.Node:
    """The placeholder of a sub-module that is given `target`; a new one where there is none."""
    placeholders = body.graph.find_nodes(op="placeholder")
    if target in call.args:
        return placeholders[call.args.index(target)]
    with body.graph.inserting_after(placeholders[-1]) if placeholders else (
            body.graph.inserting_before(next(iter(body.graph.nodes)))):
        inner = body.graph.placeholder(f"written_{target.name}")
    inner.meta.update(target.meta)
    call.args = (*call.args, target)
    return inner


def _drop_result(module: fx.GraphModule, body: fx.GraphModule, call: fx.Node,
                 position: int) -> None:
    output = body.graph.output_node()
    results = list(output.args[0])
    del results[position]
    output.args = (tuple(results),)
    for getitem in list(call.users):
        if getitem.args[1] == position:
            module.graph.erase_node(getitem)
        elif getitem.args[1] > position:
            getitem.args = (call, getitem.args[1] - 1)

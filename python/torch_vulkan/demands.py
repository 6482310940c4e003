"""What operators demand of sizes and PyTorch looks at only when it runs: where it traces them it makes
no guard, so that an engine would read and write beside what is meant."""

import math

import torch
from torch import fx

from . import compat
from .fx_nodes import op_name
from .refusals import OF_SOMETHING, STRIDED
from .strides import same

_aten = torch.ops.aten
_SELECTS = {"aten::select.int", "aten::select_copy.int", "aten::select_scatter"}
# The part of `self` that `src` is written over.
_REPLACED = {"aten::slice_scatter": _aten.slice.Tensor, "aten::select_scatter": _aten.select.int,
             "aten::diagonal_scatter": _aten.diagonal.default}
_ADDED = {"aten::index_add", "aten::index_reduce"}
_PUT = {"aten::index_put", "aten::_unsafe_index_put"}


def broken(node: fx.Node) -> str:
    """Why PyTorch refuses a node when it runs; "" where it does not. What that depends on becomes a
    guard: other sizes are captured anew."""
    if node.op != "call_function":
        return ""
    op = op_name(node.target)
    args = fx.map_arg(node.args, lambda n: n.meta.get("val"))
    kwargs = fx.map_arg(node.kwargs, lambda n: n.meta.get("val"))
    if op not in _SELECTS | _ADDED | _PUT | _REPLACED.keys() or _depends_on_data(node):
        return ""
    if op in _SELECTS:
        dim, index = args[2:4] if op == "aten::select_scatter" else args[1:3]
        if not -args[0].shape[dim] <= index or not index < args[0].shape[dim]:
            return f"{op}: an index out of range"
    if op in _REPLACED:
        part = _REPLACED[op](args[0], *args[2:], **kwargs).shape
        return "" if _equal(part, args[1].shape) else f"{op}: another size than that of the part"
    if op in _ADDED and args[0].dim() and args[3].dim():
        want = [*args[0].shape]
        want[args[1]] = args[2].numel()
        return "" if _equal(want, args[3].shape) else f"{op}: another size than that of the index"
    if op in _PUT and not any(i is not None and i.dtype in (torch.bool, torch.uint8)
                              for i in args[1]):
        part, values = _aten.index.Tensor(args[0], args[1]).shape, args[2].shape
        fits = len(values) <= len(part) and all(
            same(v, p) or v == 1 or v == p for v, p in zip(values[::-1], part[::-1]))
        return "" if fits else f"{op}: values of another size than the indices"
    return ""


def _depends_on_data(node: fx.Node) -> bool:
    values = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    return any(value is None or isinstance(value, (torch.Tensor, torch.SymInt))
               and compat.depends_on_data(value) for value in values)


def _equal(sizes, others) -> bool:
    return len(sizes) == len(others) and all(
        same(a, b) or a == b for a, b in zip(sizes, others))


def add_conditions(graph, op: str, args) -> None:
    """Tells the graph what a node that is in it demands, for who calls engines with sizes that no
    guard has seen."""
    given = {name: value for name, _, value in args}
    if op in STRIDED:
        _stay_inside(graph, given)
    elif op in OF_SOMETHING:
        _have_elements(graph, op, given)
    elif op in _SELECTS:
        size, index = graph.value_shape(given["self"])[given["dim"]], given["index"]
        graph.add_condition("at_least", size, index + 1, "select")
        graph.add_condition("at_least", size + index, 0, "select")


def _stay_inside(graph, given: dict) -> None:
    """Elements of as_strided lie in the storage."""
    last = given["storage_offset"] or 0
    if any(isinstance(size, int) and size == 0 for size in given["size"]):
        return
    for size, stride in zip(given["size"], given["stride"], strict=True):
        last = last + (size - 1) * stride
    elements = math.prod(graph.value_shape(given["self"]), start=1)
    graph.add_condition("at_least", elements, last + 1, "as_strided")


def _have_elements(graph, op: str, given: dict) -> None:
    sizes = graph.value_shape(given["self"])
    dims = given.get("dim")
    dims = range(len(sizes)) if dims is None or dims == [] else dims
    for d in [dims] if isinstance(dims, int) else dims:
        if sizes and not isinstance(sizes[d], int):
            graph.add_condition("at_least", sizes[d], 1, op.removeprefix("aten::"))

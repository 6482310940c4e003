"""What operators demand of sizes and PyTorch looks at only when it runs: its captures have no guard
of it, so that an engine would read and write beside what is meant.

Facts about operators stand with their registrations (`Converter` in csrc/converter.h) and are asked
for: `C.reads_storage`, `C.needs_elements`. The names here are something else: ATen operators that
PyTorch's tracing lets pass with sizes that its kernels refuse, whether they have a converter or
not. They are gaps of its fake tensors, and what fills them are guards, which only PyTorch can hold.
An operator belongs here if a trace with other sizes goes through although the call would raise an
error.
"""

import math

import torch
from torch import fx

from .._native import C
from .._torch import compat
from .._torch.strides import has_view, same
from .fx_nodes import op_name

_aten = torch.ops.aten
_SELECTS = {"aten::select.int", "aten::select_copy.int", "aten::select_scatter"}
# The part of `self` that `src` is written over.
_REPLACED = {"aten::slice_scatter": _aten.slice.Tensor, "aten::select_scatter": _aten.select.int,
             "aten::diagonal_scatter": _aten.diagonal.default}
_ADDED = {"aten::index_add", "aten::index_reduce"}
_PUT = {"aten::index_put", "aten::_unsafe_index_put"}
_DEMANDING = _SELECTS | _ADDED | _PUT | {"aten::put", "aten::view"} | _REPLACED.keys()


def broken(node: fx.Node) -> str:
    """Why PyTorch refuses a node when it runs; "" if it does not. What that depends on becomes a
    guard: other sizes are captured anew."""
    op = op_name(node.target) if node.op == "call_function" else ""
    if op not in _DEMANDING or _depends_on_data(node):
        return ""
    given = dict(zip((a.name for a in node.target._schema.arguments), node.args)) | node.kwargs
    given = {name: fx.map_arg(value, lambda n: n.meta.get("val")) for name, value in given.items()}
    tensor = given.pop("self")
    if op == "aten::view":
        return "" if has_view(tensor, node.meta["val"].shape) else (
            f"{op}: a shape that needs a copy of what lies so in memory")
    if op in _SELECTS:
        size, index = tensor.shape[given["dim"]], given["index"]
        if not -size <= index or not index < size:
            return f"{op}: an index out of range"
    if op in _REPLACED:
        src = given.pop("src")
        part = _REPLACED[op](tensor, **given)
        return "" if _equal(part.shape, src.shape) else f"{op}: a size other than the part's"
    if op in _ADDED and tensor.dim() and given["source"].dim():
        want = [*tensor.shape]
        want[given["dim"]] = given["index"].numel()
        return "" if _equal(want, given["source"].shape) else f"{op}: a size other than the index's"
    if op == "aten::put":
        return "" if _equal([given["index"].numel()], [given["source"].numel()]) else (
            f"{op}: not as many values as indices")
    if op in _PUT and not any(i is not None and i.dtype in (torch.bool, torch.uint8)
                              for i in given["indices"]):
        part, values = _aten.index.Tensor(tensor, given["indices"]).shape, given["values"].shape
        fits = len(values) <= len(part) and all(
            same(v, p) or v == 1 or v == p for v, p in zip(values[::-1], part[::-1]))
        return "" if fits else f"{op}: a size other than the indices'"
    return ""


def _depends_on_data(node: fx.Node) -> bool:
    values = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    return any(value is None or isinstance(value, (torch.Tensor, torch.SymInt))
               and compat.depends_on_data(value) for value in values)


def _equal(sizes, others) -> bool:
    return len(sizes) == len(others) and all(
        same(a, b) or a == b for a, b in zip(sizes, others))


def conditions(graph, op: str, args) -> list[tuple]:
    """What a node demands of sizes, for callers whose sizes no guard has checked:
    (relation, left, right, source)."""
    given = {name: value for name, _, value in args}
    if C.reads_storage(op):
        return _stay_inside(graph, given)
    if C.needs_elements(op):
        return _have_elements(graph, op, given)
    if op in _SELECTS:
        size, index = graph.value_shape(given["self"])[given["dim"]], given["index"]
        return [("at_least", size, index + 1, "select"), ("at_least", size + index, 0, "select")]
    return []


def _stay_inside(graph, given: dict) -> list[tuple]:
    """Elements of as_strided lie in the storage."""
    last = given["storage_offset"] or 0
    if any(isinstance(size, int) and size == 0 for size in given["size"]):
        return []
    for size, stride in zip(given["size"], given["stride"], strict=True):
        last = last + (size - 1) * stride
    elements = math.prod(graph.value_shape(given["self"]), start=1)
    return [("at_least", elements, last + 1, "as_strided")]


def _have_elements(graph, op: str, given: dict) -> list[tuple]:
    sizes = graph.value_shape(given["self"])
    dims = given.get("dim")
    dims = range(len(sizes)) if dims is None or dims == [] else dims
    return [("at_least", sizes[d], 1, op.removeprefix("aten::"))
            for d in ([dims] if isinstance(dims, int) else dims)
            if sizes and not isinstance(sizes[d], int)]

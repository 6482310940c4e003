"""Tensors of torch's float8 dtypes in engines, which hold their codes as uint8: what may be done
with them, and the border, where they are torch's again."""

import functools
import operator

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .._native import C
from .fx_nodes import op_name

aten = torch.ops.aten

FORMATS = {getattr(torch, name): name for name in (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")}
_WIDE = (torch.float32, torch.float16, torch.bfloat16)
_BYTES = (*FORMATS, torch.uint8)


def format_of(node) -> str:
    """The format that a node's tensor is of, by torch's name; "": another type, or several tensors.
    """
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return FORMATS.get(value.dtype, "") if isinstance(value, torch.Tensor) else ""


def is_concerned(node: fx.Node) -> bool:
    """Whether a node reads or makes such tensors."""
    return bool(format_of(node)) or any(map(format_of, node.all_input_nodes))


def refusal(node: fx.Node) -> str:
    """Why a node that is concerned stays native; "": it does not."""
    op, made = op_name(node.target), format_of(node)
    read = [format_of(n) for n in node.all_input_nodes]
    if C.takes_codes(op):
        return ""
    if op == "aten::view.dtype":
        types = {n.meta["val"].dtype for n in (node, node.args[0])}
        return "" if types <= set(_BYTES) else f"{op} of {read[0] or made} to other than bytes"
    if op == "aten::_to_copy":
        plain = not any(value is not None for name, value in node.kwargs.items()
                        if name not in ("dtype", "memory_format", "layout", "device", "pin_memory",
                                        "non_blocking") or name == "non_blocking" and value)
        wide = node.args[0].meta["val"].dtype if made else node.meta["val"].dtype
        if plain and wide in _WIDE and made != "float8_e8m0fnu":
            return ""
        return f"a cast from {node.args[0].meta['val'].dtype} to {node.meta['val'].dtype}"
    kind = made or next(filter(None, read))
    return f"tensors of {kind}: engines cast and move them, and multiply them with scales"


def arguments(node: fx.Node, op: str, args: list) -> tuple[str, list]:
    """The operator of the Graph, and its arguments, that a node which is not refused becomes.

    Args:
        op, args: as they are of plain tensors.
    """
    given = {name: (name, kind, value) for name, kind, value in args}
    if op == "aten::view.dtype":
        return "aten::alias", [given["self"]]
    if op != "aten::_to_copy":
        places = {argument.name: i for i, argument in enumerate(node.target._schema.arguments)}
        return op, [*args, *((f"{name}_format", "attr", format_of(node.args[places[name]]))
                             for name in C.code_args(op))]
    if format_of(node):
        return "tv::to_small_float", [given["self"], ("format", "attr", format_of(node)),
                                      ("saturate", "attr", _saturates(node.meta["val"].dtype))]
    return "tv::dequantize", [("input", "tensor", given["self"][2]), ("scale", "tensor", None),
                              ("zero_point", "tensor", None), ("bits", "attr", 8),
                              ("format", "attr", format_of(node.args[0]))]


@functools.cache
def _saturates(dtype: torch.dtype) -> bool:
    """Whether this PyTorch's casts make the largest number of what is beyond it: newer ones do so
    of e4m3fn."""
    with unset_fake_temporarily():
        return bool(torch.tensor([float("inf")]).to(dtype).float().isfinite())


def codes_at_border(module: fx.GraphModule, name: str) -> None:
    """Makes results of the sub-module `name` that are such tensors uint8 ones, and views them as
    what they are behind the call. (Arguments need no view: an engine reads their bytes.)"""
    body = getattr(module, name)
    (call,) = (n for n in module.graph.find_nodes(op="call_module") if n.target == name)
    output, codes = body.graph.output_node(), {}
    results = list(output.args[0])
    for i, node in enumerate(results):
        if format_of(node):
            with body.graph.inserting_before(output):
                results[i] = _viewed(body.graph, node, node, torch.uint8)
            codes[i] = node.meta["val"].dtype
    if not codes:
        return
    output.args = (tuple(results),)
    for user in list(call.users):
        if user.target is not operator.getitem or user.args[1] not in codes:
            continue
        with module.graph.inserting_after(user):
            viewed = _viewed(module.graph, user, user, codes[user.args[1]])
        with module.graph.inserting_after(viewed):  # a tensor of its own for callers
            again = module.graph.call_function(aten.detach.default, (viewed,))
        again.meta = {**viewed.meta}
        user.replace_all_uses_with(again, delete_user_cb=lambda other, own=viewed: other is not own)
        user.meta["val"] = user.meta["val"].view(torch.uint8)
    body.recompile()
    module.recompile()


def _viewed(graph: fx.Graph, node: fx.Node, like: fx.Node, dtype: torch.dtype) -> fx.Node:
    made = graph.call_function(aten.view.dtype, (node, dtype))
    made.meta = {**like.meta, "val": like.meta["val"].view(dtype)}
    return made

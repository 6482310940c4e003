"""Why a node of a captured graph cannot be one of the compiler's Graph, whatever converters say."""

import functools
import re

import torch
from torch import fx

from .._native import C
from .._torch import compat
from .._torch.strides import is_all_of_its_storage, same
from .fx_nodes import draws_random_numbers, has_effect, op_name
from .returned_views import is_kept


class WholeGraph(NotImplementedError):
    """A graph that stays PyTorch's as a whole, as it was before AOTAutograd; the message says why.
    """


class AsCaptured(WholeGraph):
    """The same of a graph of which no engine takes anything and that writes to arguments: made
    functional, it would copy all of them for each write."""


def read_by_place(graph: fx.Graph) -> set[fx.Node]:
    """Nodes whose results as_strided and its like read as they lie in storage, with gaps. Engines
    lay out their results without gaps."""
    found = set()
    for reader in graph.nodes:
        if reader.op != "call_function" or not C.reads_storage(op_name(reader.target)):
            continue
        node = reader.args[0]
        while node.op == "call_function" and not _is_all_of_its_storage(node):
            found.add(node)
            node = node.args[0]
            if not isinstance(node, fx.Node):
                break
    return found


def _is_all_of_its_storage(node: fx.Node) -> bool:
    """Not of several results: which of them is read, the node says that takes it."""
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and is_all_of_its_storage(value)


def refusal(node: fx.Node, by_place: set[fx.Node], device: torch.device) -> str:
    """Why a node stays native; "" if it can be expressed.

    Args:
        by_place: `read_by_place` of its graph.
        device: where the engines of its graph compute.
    """
    return _of_operator(node) or _of_values(node, device) or _of_torch(node) or (
        "a result that keeps PyTorch's strides or memory"
        if is_kept(node) or node in by_place else "")


def _of_operator(node: fx.Node) -> str:
    if not isinstance(node.target, torch._ops.OpOverload):
        if op_name(node.target) == "torch::with_effects":
            return f"it has a side effect ({op_name(node.args[1])})"
        return _of_higher_order(node.target) or "not an ATen operator"
    if "empty" in op_name(node.target) and (
            torch.are_deterministic_algorithms_enabled()
            and torch.utils.deterministic.fill_uninitialized_memory):
        return "PyTorch fills it with NaN (torch.utils.deterministic.fill_uninitialized_memory)"
    if has_effect(node):
        return "it draws random numbers" if draws_random_numbers(node) else "it has a side effect"
    return ""


def _of_higher_order(target) -> str:
    if not isinstance(target, torch._ops.HigherOrderOperator):
        return ""
    if target.name() == "invoke_subgraph":
        return ("a region of nested_compile_region that was traced with other sizes or strides: "
                "without the decorator it is part of the graph")
    return f"the higher-order operator {target.name()}, whose bodies PyTorch runs"


def _of_values(node: fx.Node, device: torch.device) -> str:
    inputs = [n.meta.get("val") for n in node.all_input_nodes]
    results = node.meta.get("val")
    values = (*inputs, *(results if isinstance(results, (tuple, list)) else (results,)))
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    if any(isinstance(v, (torch.Tensor, torch.SymInt)) and compat.depends_on_data(v)
           for v in values):
        return "its sizes depend on data"
    devices = {v.device for v in tensors if v.dim() or v.device.type != "cpu"}
    if len(devices) > 1:
        return "its tensors live on several devices"
    if (devices or {torch.device("cpu")}) != {device}:
        return f"it computes on {(*devices, 'cpu')[0]}, engines of its graph on {device}"
    if C.needs_elements(op_name(node.target)) and any(same(n, 0) for n in inputs[0].shape):
        return "it may be of no elements, which PyTorch refuses"
    if C.reads_storage(op_name(node.target)) and not is_all_of_its_storage(inputs[0]):
        return C.PART_OF_STORAGE
    return ""


def _of_torch(node: fx.Node) -> str:
    """What PyTorch says against the types of a call and its numbers, which tracing does not always
    notice: `x - True`, integers to a negative power, a result of another type than was traced. It
    is asked, with a one for each element, and with a number of each sign that a symbol may have."""
    if not (C.is_pointwise(op_name(node.target)) or C.needs_elements(op_name(node.target))):
        return ""
    names = tuple(node.kwargs)
    values = [*node.args, *(node.kwargs[name] for name in names)]
    count = len(node.args)

    called = None
    for negative in (True, False) if any(map(_may_be_negative, values)) else (False,):
        asked = tuple(_described(value, negative) for value in values)
        called = _called(node.target, asked[:count], names, asked[count:])
        if isinstance(called, str):
            return called
    result = node.meta.get("val")
    if isinstance(result, torch.Tensor) and called not in (None, result.dtype):
        return f"PyTorch traced a result of {result.dtype} and gives one of {called}"
    return ""


def _may_be_negative(value) -> bool:
    """Whether an argument is an integer that no guard and no range keeps from being below 0."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    value = value.meta.get("val") if isinstance(value, fx.Node) else value
    return isinstance(value, torch.SymInt) and not statically_known_true(value >= 0)


def _described(value, negative: bool) -> tuple:
    """An argument by what PyTorch refuses it for; equal for equal calls. negative: symbols that may
    be below 0 are."""
    integer = -1 if negative and _may_be_negative(value) else 1
    value = value.meta.get("val") if isinstance(value, fx.Node) else value
    if isinstance(value, torch.Tensor):
        return torch.Tensor, value.dtype, value.dim()
    if isinstance(value, (list, tuple)):
        return list, tuple(_described(item, negative) for item in value)
    if isinstance(value, torch.device):
        return torch.device, "cpu"
    for symbol, number in ((torch.SymBool, True), (torch.SymInt, integer), (torch.SymFloat, 1.0)):
        if isinstance(value, symbol):
            return type(number), number
    return type(value), value


# What NotImplementedError says of an operator without a kernel on the CPU, or for a dtype there;
# since torch 2.15 it is also the type of what PyTorch refuses ("Subtraction, the `-` operator, …").
_NO_KERNEL = re.compile(r"^Could not run |not implemented for |no (fake|Meta) ")


def _example(described: tuple):
    kind, value = described[:2]
    if kind is torch.Tensor:
        return torch.ones([1] * described[2], dtype=value, device="cpu")
    if kind is list:
        return [_example(item) for item in value]
    return torch.device(value) if kind is torch.device else value


@functools.lru_cache(maxsize=4096)
def _called(target, args: tuple, names: tuple, kwargs: tuple) -> torch.dtype | str | None:
    """The dtype that PyTorch's operator gives on the CPU, or why it refuses such arguments; None
    where it has no kernel there, which is not a refusal, or not one result."""
    with compat.as_called_alone():
        try:
            result = target(*map(_example, args),
                            **dict(zip(names, map(_example, kwargs), strict=True)))
        except Exception as error:  # noqa: BLE001: whatever it says, it will say it when it runs
            if isinstance(error, NotImplementedError) and _NO_KERNEL.search(str(error)):
                return None
            return "PyTorch refuses it: " + (str(error).partition("\n")[0] or type(error).__name__)
    return result.dtype if isinstance(result, torch.Tensor) else None

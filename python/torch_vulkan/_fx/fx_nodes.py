"""What an FX node of a captured graph is."""

import functools
import operator
import os
import re

import torch
from torch import fx

from .._torch import compat
from .symbols import is_symbolic_scalar


def op_name(target) -> str:
    """"aten::add.Tensor"; the overload is left out where it is `default`."""
    if not isinstance(target, torch._ops.OpOverload):
        return f"torch::{getattr(target, '__name__', str(target))}"
    overload = target._schema.overload_name
    return target._schema.name + (f".{overload}" if overload else "")


def is_getitem(node: fx.Node) -> bool:
    """True for a node that picks one output of another."""
    return node.op == "call_function" and node.target is operator.getitem and isinstance(
        node.args[0].meta.get("val"), (tuple, list))


def is_size_arithmetic(node: fx.Node) -> bool:
    """True for a node that computes a size from the sizes of inputs: PyTorch's business, and free.
    A size that depends on data is a node like any other."""
    value = node.meta.get("val")
    return (node.op == "call_function" and value is not None and is_symbolic_scalar(value)
            and not compat.depends_on_data(value))


def source_of(node: fx.Node) -> str:
    """File and line of the user's code, "model.py:42"."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    if not frames:
        return ""
    path, line = frames[-1]
    return f"{os.path.basename(path)}:{line}"


def module_path_of(node: fx.Node) -> str:
    """Path of the innermost module, "layer1.0.conv1"."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    return str(list(stack.values())[-1][0])


def attribute(module: torch.nn.Module, target: str):
    """The object that a get_attr node names."""
    return functools.reduce(getattr, target.split("."), module)


def has_effect(node: fx.Node) -> bool:
    """True for what must keep its place among its kind: random numbers, asserts, mutation."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return node.op == "call_function" and not is_getitem(node) and not is_size_arithmetic(node)
    return draws_random_numbers(node) or target._schema.is_mutable or not target._schema.returns


def draws_random_numbers(node: fx.Node) -> bool:
    """By the operator's tag, but attention draws only where it has a dropout."""
    if torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else argument.default_value
            return node.kwargs.get("dropout_p", given) != 0
    return True


def main_device(graph: fx.Graph) -> torch.device:
    """The first that is not the CPU, else the CPU: where the engines of a graph compute."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            return value.device
    return torch.device("cpu")


def flat(value):
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [value]

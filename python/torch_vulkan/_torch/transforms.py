"""Transforms that engines have no rules for: those of torch.func, and forward-mode AD."""

import torch
from torch import fx
from torch.autograd import forward_ad

from . import linear_scans


def reason(values) -> str:
    """Why arguments are not an engine's: a transform of torch.func is at work, or one of them has a
    tangent; "" if neither."""
    if is_transforming():
        return "engines have no rules for transforms of torch.func (vmap, jvp, grad, …)"
    if in_dual_level() and any(isinstance(value, torch.Tensor) and (
            forward_ad.unpack_dual(value).tangent is not None) for value in values):
        return "an argument has a tangent (forward-mode AD), and engines have no derivatives"
    return ""


def is_transforming() -> bool:
    functorch = torch._C._functorch
    if torch.compiler.is_dynamo_compiling():
        # Dynamo takes peek_interpreter_stack's None for true; this one it knows, and where it is a
        # number breaks the graph: the transform runs without Dynamo.
        return functorch.maybe_current_level() is not None
    return functorch.peek_interpreter_stack() is not None


def in_dual_level() -> bool:
    return forward_ad._current_level >= 0


def make_derivable(module: fx.GraphModule) -> None:
    """Replaces operators without a forward derivative by what does the same and has one."""
    derivable = {torch.ops.aten.copy.default: _copied, linear_scans.OPERATOR: linear_scans.computed}
    nodes = [node for node in module.graph.nodes if node.op == "call_function"
             and node.target in derivable]
    for node in nodes:
        node.target = derivable[node.target]
    if nodes:
        module.recompile()


def _copied(tensor, source, non_blocking=False):
    return torch.empty_like(tensor).copy_(source, non_blocking=non_blocking)

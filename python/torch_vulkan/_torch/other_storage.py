"""`x.data = y` and `x.set_(y)` in a captured graph: tensors that are given another's memory."""

import torch
from torch import fx

_ASSIGNMENTS = {"set_", "shallow_copy_data_"}  # the second: `x.data = y` since torch 2.14


def is_assigned(module: fx.GraphModule) -> bool:
    """True if what Dynamo captured, or a part of it, gives a tensor the memory of another."""
    return any(_name(node.target) in _ASSIGNMENTS for part in module.modules()
               if isinstance(part, fx.GraphModule) for node in part.graph.nodes
               if node.op in ("call_function", "call_method"))


def _name(target) -> str:
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def counts_writes(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a version counter: inference tensors have none, and what `x.data = y`
    made of two tensors, of which one was such, may say that it is none and have none either."""
    try:
        return tensor._version >= 0
    except RuntimeError:
        return False


def pass_over_uncounted_versions(module: fx.GraphModule) -> None:
    """Dynamo lowers the version counter of what `x.data = y` was said of, as that is not a counted
    write. Inference tensors have none, and PyTorch 2.13 raises: those are passed over. So are
    results of a compiled graph: it may have kept them for its gradients, and reads them from the
    new memory then. That they count as changed makes it an error, as with aot_eager."""
    for node in module.graph.nodes:
        if getattr(node.target, "__name__", "") == "_lower_version_count_by_1":
            node.target = _counted(node.target)
    module.recompile()


def _counted(lower):
    def lower_version_count(tensor: torch.Tensor) -> torch.Tensor:
        if not counts_writes(tensor):
            return tensor
        lowered = lower(tensor)  # first: grad_fn of a view that seems written is made anew
        if type(tensor.grad_fn).__name__.startswith("CompiledFunction"):
            torch.autograd.graph.increment_version(tensor)
        return lowered

    return lower_version_count

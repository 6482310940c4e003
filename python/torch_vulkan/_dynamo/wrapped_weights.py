"""Weights inside of tensors of subclasses: DTensor, quantised tensors, TwoTensor.

AOTAutograd hands the plain tensors inside to a graph, and engines see by their version counters
whether they are to be prepared again. What `__torch_dispatch__` writes to them is counted by the
outer tensor alone: autograd, which counts, is through by then. So a write that the outer tensor has
counted is counted here for each plain tensor inside, before the next call.
"""

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# Of an outer tensor: the version up to which writes are counted inside. (Not a table beside it:
# Module.to refuses tensors that something has weak references to.)
_COUNTED = "_torch_vulkan_counted"


def count_writes(example_inputs, compiled):
    """`compiled`, where writes to its weights of subclasses count before each call."""
    places = [i for i, value in enumerate(example_inputs) if _is_weight(value)]
    if not places:
        return compiled
    torch.ops.torch_vulkan.count_list_writes()

    def call(*args):
        with torch._C.DisableTorchFunctionSubclass():
            for i in places:
                outer = args[i]
                if outer.is_inference():  # it has no version, and may have changed at any time
                    torch.autograd.graph.increment_version(_plain(outer))
                elif getattr(outer, _COUNTED, None) != outer._version:
                    torch.autograd.graph.increment_version(_plain(outer))
                    setattr(outer, _COUNTED, outer._version)
        return compiled(*args)

    return call


def _is_weight(value) -> bool:
    return is_traceable_wrapper_subclass(value) and (
        isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type"))


def _plain(tensor: torch.Tensor) -> list[torch.Tensor]:
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor] if isinstance(tensor, torch.Tensor) else []  # DTensor: its mesh
    names, _ = tensor.__tensor_flatten__()
    return [plain for name in names for plain in _plain(getattr(tensor, name))]

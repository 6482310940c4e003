"""Which arguments share memory, and where they lie in it, of graphs that write to arguments.
PyTorch traces those that overlap as one argument, in which the graph names the places that they
had, and has no guard of these, nor of memory that is shared only later (torch 2.13: aot_eager and
inductor then compute otherwise than eager mode)."""

import itertools
import warnings

import torch
from torch import fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import compat
from .shared_memory import of_one_storage, overlap, share_elements


def keep_places(module: fx.GraphModule, example_inputs, compiled):
    """`compiled`, in place of which the captured graph is run, as it is written, where arguments
    share memory otherwise than when it was captured. Parameters and buffers are not looked at."""
    if not compat.writes_to_arguments():
        return compiled
    looked_at = [i for i, value in enumerate(example_inputs) if _may_share(value)]
    if len(looked_at) < 2:
        return compiled
    traced = [group for group in of_one_storage(example_inputs, looked_at)
              if _may_overlap([example_inputs[i] for i in group])]
    places = [(i, example_inputs[i].storage_offset()) for group in traced for i in group
              if isinstance(example_inputs[i].storage_offset(), int)]

    def call(*args):
        if not traced and _count(args, looked_at) == len(looked_at) or _is_as_traced(args):
            return compiled(*args)
        warnings.warn("torch_vulkan: arguments that are written to share memory otherwise than "
                      "when the graph was captured; the call runs natively", stacklevel=2)
        return module.forward(*args)

    def _is_as_traced(args) -> bool:
        if any(args[i].storage_offset() != offset for i, offset in places):
            return False
        groups = of_one_storage(args, looked_at)
        return all(any(known <= group for group in groups) for known in traced) and not any(
            share_elements(args[i], args[j]) for group in groups if group not in traced
            for i, j in itertools.combinations(group, 2))

    return call


def _may_share(value) -> bool:
    return (isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
            and not hasattr(value, "_dynamo_static_input_type")
            and value.layout == torch.strided and not is_traceable_wrapper_subclass(value))


def _may_overlap(tensors: list[torch.Tensor]) -> bool:
    numbers = [n for t in tensors for n in (*t.shape, *t.stride(), t.storage_offset())]
    return not all(isinstance(n, int) for n in numbers) or overlap(tensors)


def _count(args, positions) -> int:
    """Of how many storages these arguments are."""
    return len({args[i].untyped_storage()._cdata for i in positions})

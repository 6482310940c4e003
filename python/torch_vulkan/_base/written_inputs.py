"""Inputs that an engine writes: what it works on, and what the caller gets back."""

import torch


def own_memory(bindings: list[dict], inputs, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that an engine works on: a copy of what it writes where that shares memory with
    another input, because the others are read as they were before the call.

    Args:
        bindings: the engine's inputs.
        inputs: what was given for them, tensors or arrays.
        tensors: the same as the engine reads it.

    Raises:
        ValueError: what is to be written cannot be.
    """
    made = list(tensors)
    for i, (binding, value) in enumerate(zip(bindings, inputs, strict=True)):
        if not binding["written"]:
            continue
        if not _is_writable(value):
            raise ValueError(f"input {binding['name']!r} is written by the engine: got an array "
                             "that is read only, elements that may lie in one place in memory, or "
                             "an inference tensor outside of torch.inference_mode()")
        if any(_share(tensors[i], other) for k, other in enumerate(tensors) if k != i):
            made[i] = tensors[i].clone()
    return made


def _is_writable(value) -> bool:
    if isinstance(value, torch.Tensor):
        return not may_overlap(value.shape, value.stride(), 1) and (
            not value.is_inference() or torch.is_inference_mode_enabled())
    return bool(value.flags.writeable) and not may_overlap(
        value.shape, map(abs, value.strides), value.itemsize)


def may_overlap(sizes, strides, element: int) -> bool:
    """Whether two elements, of size `element` in what strides count, may be one in memory; False
    only where it is sure."""
    if 0 in sizes:
        return False
    reach = element
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def _share(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() < b.data_ptr() + b.nbytes and b.data_ptr() < a.data_ptr() + a.nbytes


def announce(bindings: list[dict], inputs, tensors: list[torch.Tensor]) -> None:
    """Tells autograd of what the engine is about to write where it lies: where it fails on the way,
    parts may be written."""
    for whole, tensor in _written(bindings, inputs, tensors):
        if _is_same(whole, tensor) and not whole.is_inference():
            torch.autograd.graph.increment_version(whole)


def write_back(bindings: list[dict], inputs, tensors: list[torch.Tensor]) -> None:
    """Gives callers what was not written where it lies."""
    for whole, tensor in _written(bindings, inputs, tensors):
        if not _is_same(whole, tensor):
            whole.copy_(tensor)


def _written(bindings, inputs, tensors):
    """What the caller gave, as a tensor, and what the engine works on, of each input it writes."""
    for binding, value, tensor in zip(bindings, inputs, tensors, strict=True):
        if binding["written"]:
            is_tensor = isinstance(value, torch.Tensor)
            yield value.detach() if is_tensor else torch.from_numpy(value), tensor


def _is_same(whole: torch.Tensor, tensor: torch.Tensor) -> bool:
    return whole.device == tensor.device and whole.data_ptr() == tensor.data_ptr()

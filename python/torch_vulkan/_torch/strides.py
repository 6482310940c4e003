"""Strides that torch.compile promises for what an engine returns."""

import math

import sympy
import torch

from . import compat
from .guards import canonical


def _hint(value) -> int:
    return value.node.hint if isinstance(value, torch.SymInt) else value


def _order(tensor: torch.Tensor) -> list[int]:
    """Dimensions with more than one element, outermost first, as they lie in memory."""
    dims = [d for d in range(tensor.dim()) if _hint(tensor.shape[d]) != 1]
    return sorted(dims, key=lambda d: (-_hint(tensor.stride(d)), d))


def memory_order(tensor: torch.Tensor) -> list[int]:
    """All dimensions in the order in which they lie in memory, outermost first; as they are
    numbered, where an expanded one lies nowhere, or data tell how they lie."""
    dims = range(tensor.dim())
    if compat.depends_on_data(tensor) or any(
            same(tensor.stride(d), 0) and not same(tensor.shape[d], 1) for d in dims):
        return [*dims]
    return sorted(dims, key=lambda d: (-_hint(tensor.stride(d)), d))


def same(a, b) -> bool:
    """Equality of sizes without a guard."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b

    def expr(value):
        return canonical(value) if isinstance(value, torch.SymInt) else value

    return bool(sympy.expand(expr(a) - expr(b)) == 0)


def is_dense(tensor: torch.Tensor) -> bool:
    """True if the elements fill a block of memory without gap or overlap."""
    if any(same(size, 0) for size in tensor.shape):
        return True
    expected = 1
    for d in reversed(_order(tensor)):
        if not same(tensor.stride(d), expected):
            return False
        expected = expected * tensor.shape[d]
    return True


def may_overlap(sizes, strides) -> bool:
    """Whether two elements of a tensor may be one number in memory; False only where it is sure.
    What depends on symbols becomes a guard: other sizes are captured anew."""
    if any(same(size, 0) for size in sizes):
        return False
    if not all(map(compat.allows_guards, (*sizes, *strides))):
        return True
    reach = 1
    for stride, size in sorted(zip(strides, sizes, strict=True), key=lambda pair: _hint(pair[0])):
        if size == 1:
            continue
        if stride < reach:
            return True
        reach = reach + stride * (size - 1)
    return False


def lies_within(tensor: torch.Tensor, sizes, strides, offset) -> bool:
    """Whether the elements that as_strided shows are all among the tensor's own; True only where it
    is sure. What depends on symbols becomes a guard: other sizes are captured anew."""
    if any(same(size, 0) for size in sizes):
        return True
    first = tensor.storage_offset()
    offset = first if offset is None else offset
    if not is_dense(tensor) or not all(map(
            compat.allows_guards, (*sizes, *strides, offset, first, *tensor.shape))):
        return False
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return bool(offset >= first) and bool(last < first + tensor.numel())


def has_view(tensor: torch.Tensor, shape) -> bool:
    """Whether `tensor.view(shape)` is possible (ATen/TensorUtils.cpp, computeStride). What depends
    on symbols becomes a guard, where the tensor is not sure to be contiguous."""
    sizes, strides = tensor.shape, tensor.stride()
    if any(same(size, 0) for size in sizes) or all(
            same(stride, _row_major(tensor, d)) or same(size, 1)
            for d, (size, stride) in enumerate(zip(sizes, strides, strict=True))):
        return True
    left = [*shape]
    inner, elements = strides[-1], 1  # of the dimensions that lie in memory like one
    for d in reversed(range(len(sizes))):
        elements = elements * sizes[d]
        if d and (sizes[d - 1] == 1 or strides[d - 1] == elements * inner):
            continue
        taken = 1
        while left and (taken < elements or left[-1] == 1):
            taken = taken * left.pop()
        if taken != elements:
            return False
        inner, elements = strides[d - 1], 1
    return not left


def is_all_of_its_storage(tensor: torch.Tensor) -> bool:
    """True if the row-major elements are all that the storage holds, from its start."""
    if not tensor.is_contiguous() or not same(tensor.storage_offset(), 0):
        return False
    return same(tensor.untyped_storage().nbytes(), tensor.numel() * tensor.element_size())


def _row_major(tensor: torch.Tensor, d: int):
    return math.prod(size for size in tensor.shape[d + 1:] if not same(size, 0))


def promised(tensor: torch.Tensor) -> list | None:
    """The strides an output is made with: the tensor's own where they are dense, else dense ones in
    the same order of dimensions. None: row-major."""
    if tensor.layout != torch.strided:
        return None
    # Where it means nothing any stride will do, but none that no size of the tensor tells.
    is_empty = any(same(size, 0) for size in tensor.shape)
    strides = [_row_major(tensor, d)
               if isinstance(stride, torch.SymInt) and (is_empty or same(size, 1)) else stride
               for d, (size, stride) in enumerate(zip(
                   tensor.shape, tensor.stride(), strict=True))]
    if is_dense(tensor):
        return strides
    expected = 1
    inner_first = [*reversed(_order(tensor))]
    if any(same(tensor.stride(d), 0) for d in inner_first):
        return None
    for d in inner_first:
        strides[d] = expected
        expected = expected * tensor.shape[d]
    return strides

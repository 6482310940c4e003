"""Tensors that lie in each other's memory without being one: `a.data = b.data`, views. Of weights
that are changed, and of arguments."""

import functools
import math

import torch

from .._base.raw_bytes import raw_bytes

Changes = list[tuple[torch.Tensor, torch.Tensor]]


def shadows(tensors: dict[str, torch.Tensor], changes: Changes) -> Changes:
    """(tensor, its new value) of those that `changes` do not name, but whose memory they write.

    Raises:
        ValueError: two changes give the same memory different values.
    """
    changed = {id(tensor): value for tensor, value in changes}
    found = []
    for group in _overlapping([*{id(t): t for t in tensors.values()}.values()]):
        if len(group) > 1 and any(id(tensor) in changed for tensor in group):
            found += _after(group, changed, {id(t): name for name, t in tensors.items()})
    return found


def of_one_storage(values, positions) -> list[set[int]]:
    """Of these positions in `values` those whose tensors share a storage; other values are passed
    over."""
    found: dict[int, set[int]] = {}
    for i in positions:
        if isinstance(values[i], torch.Tensor) and values[i].layout == torch.strided:
            found.setdefault(values[i].untyped_storage()._cdata, set()).add(i)
    return [group for group in found.values() if len(group) > 1]


def overlap(tensors: list[torch.Tensor]) -> bool:
    """Whether the memory of two tensors of one storage, from the first element to the last, is
    shared."""
    reach = 0
    for start, end in sorted(_span(tensor) for tensor in tensors if tensor.numel()):
        if start < reach:
            return True
        reach = end
    return False


def share_elements(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one storage share a byte, exactly: rows between the other's rows do
    not."""
    if not a.numel() or not b.numel() or not overlap([a, b]):
        return False
    first = min(_span(a)[0], _span(b)[0])
    return _share_runs(_runs(a, first), _runs(b, first))


def _runs(tensor: torch.Tensor, first: int) -> tuple:
    """What a tensor is in memory: the bytes of a run, the sizes and strides in bytes of the
    dimensions that repeat it, and where it begins behind byte `first` of the storage."""
    run, outer = tensor.itemsize, []
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if stride * tensor.itemsize == run and not outer:
            run *= size
        elif size > 1:
            outer.append((size, stride * tensor.itemsize))
    return run, tuple(outer), tensor.storage_offset() * tensor.itemsize - first


@functools.lru_cache(4096)
def _share_runs(*layouts) -> bool:
    """By a map of the memory, of as many bytes a place as all lengths and distances are multiples
    of."""
    unit = math.gcd(*(n for run, outer, offset in layouts
                      for n in (run, offset, *(stride for _, stride in outer))))
    places = [((*(size for size, _ in outer), run // unit),
               (*(stride // unit for _, stride in outer), 1), offset // unit)
              for run, outer, offset in layouts]
    count = max(offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
                for sizes, strides, offset in places)
    seen = torch.zeros(count, dtype=torch.bool)
    seen.as_strided(*places[0]).fill_(True)
    return bool(seen.as_strided(*places[1]).any())


def has_its_own_elements(tensor: torch.Tensor) -> bool:
    """False if several elements are one number in memory, as in what `expand` returns."""
    return not any(size > 1 and stride == 0
                   for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Also where both are nan."""
    return torch.equal(raw_bytes(a), raw_bytes(b))


def _overlapping(tensors: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Groups of tensors whose memory is connected."""
    spans = sorted((str(t.device), t.untyped_storage().data_ptr(), *_span(t), i)
                   for i, t in enumerate(tensors)
                   if t.layout == torch.strided and not t.is_meta and t.numel())
    groups, last, reach = [], None, 0
    for device, storage, start, end, i in spans:
        if (device, storage) == last and start < reach:
            groups[-1].append(tensors[i])
        else:
            groups.append([tensors[i]])
            last, reach = (device, storage), 0
        reach = max(end, reach)
    return groups


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and the one behind the last, in its storage."""
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    first = tensor.storage_offset()
    return first * tensor.itemsize, (first + extent) * tensor.itemsize


def _after(group, changed, names) -> Changes:
    """What the tensors of a group hold once the changed ones among them are written."""
    first = min(_span(t)[0] for t in group) // 16 * 16
    last = max(_span(t)[1] for t in group)
    storage = max((t.untyped_storage() for t in group), key=lambda s: s.nbytes())
    with torch.no_grad():
        memory = torch.empty(0, dtype=torch.uint8, device=group[0].device).set_(storage)
        copy = memory[first:last].clone().untyped_storage()

        def there(tensor):
            return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
                copy, tensor.storage_offset() - first // tensor.itemsize, tensor.shape,
                tensor.stride())

        for tensor in group:
            if id(tensor) in changed:
                there(tensor).copy_(changed[id(tensor)])
        for tensor in group:
            if id(tensor) in changed and not same_bits(there(tensor), changed[id(tensor)]):
                raise ValueError(f"tv.refit: weight {names[id(tensor)]!r} shares memory with "
                                 "another that is given a different value")
        return [(tensor, there(tensor)) for tensor in group if id(tensor) not in changed]

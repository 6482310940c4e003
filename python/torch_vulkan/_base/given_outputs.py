"""Memory that users give for an engine's results."""

import itertools
from collections.abc import Mapping

import torch

from .written_inputs import may_overlap


def checked(out, outputs: dict[str, torch.Tensor]) -> dict[str, tuple]:
    """name → (what was given, it as a tensor). `outputs`: tensors like those that are wanted.

    Raises:
        ValueError: a name is unknown, a dtype or shape does not fit, memory cannot be written, or
            its span overlaps that of another result.
    """
    if out is None:
        return {}
    if not isinstance(out, Mapping):
        if len(out) != len(outputs):
            raise ValueError(f"out: got {len(out)}, want {len(outputs)}")
        out = dict(zip(outputs, out))
    checked = {}
    for name, value in out.items():
        if name not in outputs:
            raise ValueError(f"out: no output {name!r}; got outputs {sorted(outputs)}")
        tensor = value if isinstance(value, torch.Tensor) else _of_array(name, value)
        want = outputs[name]
        if tensor.dtype != want.dtype or tensor.shape != want.shape:
            raise ValueError(f"out {name!r}: got {tensor.dtype} {[*tensor.shape]}, want "
                             f"{want.dtype} {[*want.shape]}")
        if may_overlap(tensor.shape, tensor.stride(), 1):
            raise ValueError(f"out {name!r}: its elements may lie in one place in memory")
        checked[name] = (value, tensor.detach())
    _refuse_shared({name: tensor for name, (_, tensor) in checked.items()})
    return checked


def _of_array(name, value) -> torch.Tensor:
    if not hasattr(value, "__array__") or not hasattr(value, "flags"):
        raise ValueError(f"out {name!r}: got {type(value).__name__}, want a tensor or array")
    return writable(f"out {name!r}", value)


def writable(what: str, array) -> torch.Tensor:
    """A NumPy array as a tensor of its memory. Raises ValueError where that cannot be written."""
    if not array.flags.writeable:
        raise ValueError(f"{what}: got an array that is read only")
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError) as error:  # negative strides, another order of bytes, strings
        raise ValueError(f"{what}: {error}") from None


def _refuse_shared(tensors: dict[str, torch.Tensor]) -> None:
    spans = sorted((t.device.type, t.device.index or 0, t.data_ptr(), _span_end(t), name)
                   for name, t in tensors.items() if t.numel())
    for (*device, _, end, name), (*other, begin, _, second) in itertools.pairwise(spans):
        if device == other and begin < end:
            raise ValueError(f"out: {name!r} and {second!r} share memory")


def _span_end(tensor: torch.Tensor) -> int:
    """The address behind a tensor's last element."""
    reach = sum((size - 1) * stride
                for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr() + (reach + 1) * tensor.itemsize


def is_direct(tensor, like, inputs) -> bool:
    """Whether an engine can write to a tensor's own memory, which none of the inputs shares."""
    if not (tensor.is_cpu and tensor.stride() == like.stride() and not tensor.is_neg()
            and tensor.data_ptr() % 16 == 0):
        return False
    first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    return all(t.data_ptr() >= last or t.data_ptr() + t.nbytes <= first for t in inputs)

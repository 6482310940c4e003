"""Memory that users give for an engine's results."""

from collections.abc import Mapping

import torch


def checked(out, outputs: dict[str, torch.Tensor]) -> dict[str, tuple]:
    """name → (what was given, it as a tensor). `outputs`: tensors like those that are wanted.

    Raises:
        ValueError: a name is unknown, or a dtype or shape does not fit.
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
        checked[name] = (value, tensor.detach())
    return checked


def _of_array(name, value) -> torch.Tensor:
    if not hasattr(value, "__array__"):
        raise ValueError(f"out {name!r}: got {type(value).__name__}, want a tensor or array")
    return torch.from_numpy(value)


def is_direct(tensor, like, inputs) -> bool:
    """Whether an engine can write to a tensor's own memory, which none of the inputs shares."""
    if not (tensor.is_cpu and tensor.stride() == like.stride() and not tensor.is_neg()
            and tensor.data_ptr() % 16 == 0):
        return False
    first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    return all(t.data_ptr() >= last or t.data_ptr() + t.nbytes <= first for t in inputs)

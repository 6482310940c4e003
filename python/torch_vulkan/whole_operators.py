"""Keeps operators whole that PyTorch takes apart while it traces, below every table of
decompositions: resizing has one kernel here, and index arithmetic there."""

import contextlib
import threading

import torch
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size

aten = torch.ops.aten

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_RESIZES = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d",
            "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
            "_upsample_lanczos2d_aa", "upsample_nearest1d", "upsample_nearest2d",
            "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
            "_upsample_nearest_exact3d")
_lock = threading.RLock()


def _by_size(operator):
    """The form that takes a list of scale factors, by the one that takes sizes."""
    def resize(input, output_size, *rest):
        *corners, factors = rest
        sizes = upsample_compute_output_size(input.size(), output_size, factors)
        if any(isinstance(n, int) and n == 0 for n in input.shape[:2]):
            return input.new_empty((*input.shape[:2], *sizes))  # what its shape function refuses
        return operator(input, sizes, *corners, *(factors or [None] * len(sizes)))
    return resize


def _gradient(grad_output, output_size, input_size, *rest):
    """Of symbolic sizes, too, which PyTorch's own shape functions of gradients are not for."""
    memory_format = torch.contiguous_format
    if grad_output.dim() == 4:
        memory_format = torch._prims_common.suggest_memory_format(grad_output)
    return grad_output.new_empty(input_size).contiguous(memory_format=memory_format)


def _replacements():
    """(overload, keys whose kernels go, what takes their place or None)."""
    for name in _RESIZES:
        packet = getattr(aten, name, None)
        if packet is None:
            continue
        yield packet.default, _KEYS, None
        yield packet.vec, _KEYS, _by_size(packet.default)
        yield getattr(aten, f"{name}_backward").default, (DispatchKey.Meta,), _gradient


@contextlib.contextmanager
def kept_whole():
    """While it lasts, tracing leaves the operators above as they are."""
    with _lock:
        saved = {}
        try:
            for overload, keys, replacement in _replacements():
                saved[overload] = dict(overload.py_kernels)
                for key in keys:
                    overload.py_kernels.pop(key, None)
                    if replacement is not None:
                        overload.py_kernels[key] = replacement
                overload._dispatch_cache.clear()
            yield
        finally:
            for overload, kernels in saved.items():
                overload.py_kernels.clear()
                overload.py_kernels.update(kernels)
                overload._dispatch_cache.clear()

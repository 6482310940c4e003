"""Errors that reach the user; the class says who can act on it."""

import contextlib

import torch

from .._native import C

UnsupportedError = C.UnsupportedError
DeviceError = C.DeviceError

# The host ran out of memory; it did inside of C++ or the device did.
OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)
# What another call, at another time, may not meet.
UNAVAILABLE = (*OUT_OF_MEMORY, torch.AcceleratorError)


@contextlib.contextmanager
def memory_errors():
    """A MemoryError inside, where PyTorch's bindings of classes make a RuntimeError of one."""
    try:
        yield
    except RuntimeError as error:
        if "std::bad_alloc" not in str(error) or isinstance(error, OUT_OF_MEMORY):
            raise
        raise MemoryError("[torch_vulkan] the host is out of memory") from error

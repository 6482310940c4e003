"""Asks torch for CUDA memory that Vulkan can import."""

import functools
import os
import warnings

import torch


def set_allocator(settings: str) -> None:
    """PYTORCH_ALLOC_CONF from now on."""
    if hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        torch._C._accelerator_setAllocatorSettings(settings)
    else:
        torch.cuda.memory._set_allocator_settings(settings)


@functools.cache
def allocate_shareable() -> bool:
    """Turns torch's expandable segments on, whose memory an engine uses in place; memory of
    cudaMalloc has to be copied. Leaves alone what the user configured. True where it did."""
    given = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    if "expandable_segments" in given or "backend" in given or not torch.cuda.is_available():
        return False
    try:
        set_allocator(f"{given},expandable_segments:True".lstrip(","))
    except (AttributeError, RuntimeError, ValueError) as error:
        warnings.warn(f"torch_vulkan: expandable segments are not to be had: {error}", stacklevel=2)
        return False
    return True

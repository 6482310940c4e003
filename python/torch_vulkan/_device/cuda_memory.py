"""Asks torch for CUDA memory that Vulkan can import."""

import functools
import os
import warnings

import torch

from .._native import LIB


@functools.cache
def mem_pool() -> "torch.cuda.MemPool":
    """A pool of CUDA memory that engines can use in place, for programs without expandable
    segments.

        with torch.cuda.use_mem_pool(tv.mem_pool()):
            x = torch.empty(shape, device="cuda")

    Raises:
        RuntimeError: CUDA and Vulkan do not share a GPU.
    """
    from .device_list import cuda_report

    report = cuda_report(torch.device("cuda", torch.cuda.current_device()))
    if not any("streams wait for" in line for line in report):
        raise RuntimeError("mem_pool: CUDA and Vulkan share no memory here: " + "; ".join(report))
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        str(LIB / "libvk_runtime.so"), "tv_cuda_allocate", "tv_cuda_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    pool._allocator = allocator  # the pool calls into it for as long as it lives
    return pool


def set_allocator(settings: str) -> None:
    """Sets PYTORCH_ALLOC_CONF for this process."""
    if hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        torch._C._accelerator_setAllocatorSettings(settings)
    else:
        torch.cuda.memory._set_allocator_settings(settings)


@functools.cache
def allocate_shareable() -> bool:
    """Turns on torch's expandable segments, whose memory engines can use in place; memory of
    cudaMalloc has to be copied. Does nothing if the user has configured the allocator. Returns
    whether it did."""
    given = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    if "expandable_segments" in given or "backend" in given or not torch.cuda.is_available():
        return False
    try:
        set_allocator(f"{given},expandable_segments:True".lstrip(","))
    except (AttributeError, RuntimeError, ValueError) as error:
        warnings.warn(f"torch_vulkan: expandable segments are not to be had: {error}", stacklevel=2)
        return False
    return True

"""What the device makes of numbers below the smallest normal ones."""

import functools

import torch


@functools.cache
def flushes_denormals() -> bool:
    """Whether the device takes float32 denormals for 0."""
    half = torch.compile(lambda x: x * 0.5, backend="vulkan", options={"min_block_size": 1})
    return not half(torch.full((5,), 2.0**-126)).any()

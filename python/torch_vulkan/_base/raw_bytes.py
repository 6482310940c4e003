"""The bytes of tensors."""

import torch


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a strided tensor's elements in order, uint8 of one dimension, on the CPU. They
    are the tensor's own memory where that is contiguous."""
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A contiguous tensor of at most one element may have any stride.
    return flat.as_strided(flat.shape, (1,)).view(torch.uint8)

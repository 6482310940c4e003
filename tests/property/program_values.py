"""What the inputs of a random program are made of; its files import this module."""

import torch

LEAVES: list[torch.Tensor] = []  # what numbers() made last with gradients


def numbers(shape, dtype=torch.float32, seed=0, grad=False) -> torch.Tensor:
    """A tensor of quarters between -2 and 2, of small integers, or of bools, by its seed."""
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randint(-8, 9, shape, generator=generator)
    if dtype.is_floating_point:
        tensor = (whole / 4).to(dtype)
    elif dtype == torch.bool:
        tensor = whole > 0
    else:
        tensor = (whole.abs() if dtype == torch.uint8 else whole).to(dtype)
    if grad:
        LEAVES.append(tensor.requires_grad_())
    return tensor


def huge(*shape, seed=0) -> torch.Tensor:
    """A tensor of any size whose elements are one."""
    return numbers((1,), seed=seed).reshape((1,) * len(shape)).expand(*shape)


class Affine(torch.nn.Module):
    """A module whose forward pass a program writes itself: a parameter and a buffer."""

    def __init__(self, n: int, seed: int, dtype=torch.float32):
        super().__init__()
        self.w = torch.nn.Parameter(numbers((n,), dtype, seed))
        self.register_buffer("b", numbers((n,), dtype, seed + 1))

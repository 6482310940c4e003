"""Which weights are 2:4 sparse - of each four neighbours two at most are not zero - is looked at
where their values are at hand; the compiler sees no values."""

import torch
from torch import fx

from .._torch import compat
from . import captured_tensors

DIMENSIONS = "torch_vulkan_two_four"


def dimensions(tensor) -> int:
    """Bit d is set if a matrix is so along dimension d (Value::two_four)."""
    if not captured_tensors.has_values(tensor) or tensor.dim() != 2 or (
            tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16)):
        return 0
    with compat.no_fake_mode(), torch.no_grad():
        return sum(1 << dim for dim in (0, 1) if _is_so(tensor.detach(), dim))


def _is_so(matrix: torch.Tensor, dim: int) -> bool:
    if matrix.shape[dim] % 4:
        return False
    fours = matrix.unflatten(dim, (-1, 4))
    return bool(((fours != 0).sum(dim + 1) <= 2).all())


def mark_argument(node: fx.Node) -> None:
    """Looks at the weight that a placeholder, which AOTAutograd has made of an argument, stands
    for."""
    tensor = captured_tensors.described(node.meta.get("desc"))
    if tensor is not None:
        mark(node, tensor)


def mark(node: fx.Node, tensor) -> None:
    """Writes into the meta of a node that stands for a weight what the importer wants to know."""
    node.meta[DIMENSIONS] = dimensions(tensor)

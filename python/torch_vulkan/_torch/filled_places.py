"""index_fill as eager computes it, where PyTorch's own decomposition does not: a number in a tensor
of another type is cast, and a tensor without elements stays as it is, whatever the index."""

import torch

aten = torch.ops.aten


def index_fill(x, dim, index, value):
    """Of aten::index_fill.int_Tensor."""
    others = [size for d, size in enumerate(x.shape) if d != dim % x.dim()] if x.dim() else []
    if any(isinstance(size, int) and size == 0 for size in others):
        return x.clone()
    return torch._refs.index_fill(x, dim, index, value.to(x.dtype))


DECOMPOSITIONS = {aten.index_fill.int_Tensor: index_fill}

"""index_fill as eager computes it, where PyTorch's own decomposition does not: a number in a tensor
of another type is cast; what eager makes of an index into a tensor without elements, a result or an
error, is left to it; and the result lies in memory as the tensor does without a copy afterwards,
which PyTorch 2.11 writes in place into a graph that may have no such write."""

import torch

from .strides import memory_order

aten = torch.ops.aten


def index_fill(x, dim, index, value):
    """Of aten::index_fill."""
    is_tensor = isinstance(value, torch.Tensor)
    if any(isinstance(size, int) and size == 0 for size in x.shape) or index.dim() > 1 or (
            is_tensor and value.dim() != 0):
        return NotImplemented
    number = value.to(x.dtype) if is_tensor else torch.scalar_tensor(
        value, dtype=x.dtype, layout=x.layout, device=x.device)
    if x.dim() == 0:
        return index_fill(x.unsqueeze(0), dim, index, value).squeeze(0).clone()
    order = memory_order(x)
    rows = x.permute(order)
    dim = order.index(dim % x.dim())
    index = torch.where(index < 0, index + rows.shape[dim], index)  # which index_copy refuses
    shape = [*rows.shape]
    shape[dim] = index.numel()
    filled = torch.index_copy(rows, dim, index, number.expand(shape))
    return filled.permute([order.index(d) for d in range(x.dim())])


DECOMPOSITIONS = {aten.index_fill.int_Tensor: index_fill, aten.index_fill.int_Scalar: index_fill}

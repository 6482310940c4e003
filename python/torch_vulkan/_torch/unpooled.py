"""max_unpool2d and max_unpool3d with a look at their indices, which PyTorch's own decomposition
leaves out: what is out of range is refused as any index is."""

import math

import torch
from torch._decomp import decomposition_table

aten = torch.ops.aten


def _checked(own, dims: int):
    def unpooled(x, indices, output_size, *window):
        size = math.prod(output_size)
        if any(isinstance(n, int) and n == 0 for n in (*x.shape, *output_size)):
            return own(x, indices, output_size, *window)
        own(x, indices, output_size, *window)  # raises what it says against sizes and types
        rows = math.prod(x.shape[:-dims])
        starts = torch.arange(rows, device=x.device).view([*x.shape[:-dims]] + [1] * dims) * size
        outside = (indices < 0) | (indices >= size)
        places = torch.where(outside, rows * size, indices + starts).reshape(-1)
        y = aten.index_put(x.new_zeros(rows * size), [places], x.reshape(-1))
        return y.view([*x.shape[:-dims], *output_size])

    return unpooled


DECOMPOSITIONS = {op: _checked(decomposition_table[op], dims) for op, dims in (
    (aten.max_unpool2d.default, 2), (aten.max_unpool3d.default, 3))}

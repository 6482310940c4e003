"""With PyTorch 2.11 two guards together say that a matrix is square."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", True, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (4, 3, 5)[call]
    m = 8
    x = numbers((n * m,), torch.float32, 8)
    y = numbers((2, 3), torch.float16, 79)[1:]
    z = numbers((n, n), torch.int64, 10).t()
    return (x, y, z,)


def program(x, y, z):
    v1 = z.diagonal()
    v8 = v1 // 2
    z.copy_(v8)
    v9 = v8 * v8
    v10, v11 = v9.tensor_split(2, 0)
    v11.scatter_(0, torch.zeros_like(v11, dtype=torch.int64), 1)
    v12 = torch._neg_view(y)
    v12.transpose_(0, 0)
    v13 = torch._neg_view(v12)
    v14 = F.threshold(v13, 0, (2 * 2))
    return (v13, v12, v10, v11, v14)

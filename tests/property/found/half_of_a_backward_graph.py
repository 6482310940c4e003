"""A backward graph sees a size in its halves alone: n of (n + 1)//2 and n - (n + 1)//2."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (4, 4, 31)[call]
    x = numbers((n, n), torch.float16, 47, grad=True)
    z = x[::2]
    return (x, z,)


def program(x, z):
    v1, v2 = x.chunk(2, -1)
    v5 = z.reshape(-1)
    return v2

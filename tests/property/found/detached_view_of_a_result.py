"""A view of a detached result had the gradient of the result."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (31, 4, 5)[call]
    m = 2
    x = numbers((n, m), torch.bfloat16, 1, grad=True) * 1
    y = numbers((n, n), torch.float32, 66)
    y = y.expand(3, *y.shape)
    z = numbers((6,), torch.float32, 21, grad=True).flatten()[1:]
    return (x, y, z,)


def program(x, y, z):
    v1 = z[-1]
    v2 = x.t() @ x
    v3 = v2.detach()
    v4 = v3.view(-1)
    v6 = float(v1.float().sum())
    return (v1, v2, v4, v3, v6)

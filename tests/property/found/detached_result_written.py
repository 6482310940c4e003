"""A write into a detached view of a result was an error of the result."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "autocast", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 3
    m = (2, 4, 13)[call]
    x = numbers((6,), torch.float32, 40, grad=True) * 1
    y = numbers((n, m), torch.bfloat16, 18, grad=True).as_strided((2, 2), (1, 1))
    b = (False, False, False)[call]
    return (x, y, b,)


def program(x, y, b):
    v1 = y.reshape(-1)
    v2 = v1.detach()
    if v2.sum() > 0.1:
        v2[torch.tensor([0, -1])] = x.shape[0]
    return (v1, x)

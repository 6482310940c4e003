"""A backward graph shows sizes of its own: not all that guards name."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", True, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (5, 2, 5)[call]
    m = (3, 4, 2)[call]
    x = numbers((n, 4), torch.float32, 17)[1:]
    y = numbers((2, n), torch.float32, 20, grad=True) * 1
    z = numbers((4,), torch.bfloat16, 35, grad=True)
    i = (5, 2147483648, -3)[call]
    return (x, y, z, i,)


def program(x, y, z, i):
    v1 = z.amax(-1)
    v3 = y.clone()
    v4 = v3.flatten()
    torch._dynamo.graph_break()
    v9 = v3.view(v3.shape[0] * v3.shape[1], -1)
    v10 = v9.min(1)[0]
    return (v4, v1, v10)

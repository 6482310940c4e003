"""A size read off what an index of integers gave: it was taken for one that depends on data, and
the block around it waited for itself."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (7, 5, 7)[call]
    m = 4
    x = numbers((n, 4), torch.bfloat16, 10).transpose(0, -1)
    y = numbers((4,), torch.int16, 16)
    y = y.expand(3, *y.shape)
    y = x[:-1]
    b = (False, True, True)[call]
    return (x, y, b,)


def program(x, y, b):
    v1 = y[torch.tensor([0, -1])]
    v2 = v1[1::2]
    v2[torch.tensor([0, -1])] = -1
    v3 = v1.reshape(-1)
    v5 = v3.view(1, -1)
    v6 = v3[None]
    with torch.no_grad():
        v5 += (2 * 2)
    v8 = torch.lerp(v6, v6 + 1, 0.25)
    return (v6, v8)

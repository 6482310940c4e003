"""python tests/property/random_programs.py --replay 20261123/82"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (3, 2, 4)[call]
    m = (3, 2, 7)[call]
    x = numbers((), torch.float32, 14, grad=True)
    y = numbers((2, n), torch.float32, 91, grad=True).transpose(0, -1)
    z = numbers((2, 3), torch.float64, 66, grad=True)
    j = (-1125899906842624, 4294967299, 3)[call]
    return (x, y, z, j,)


def program(x, y, z, j):
    v1 = z.view(torch.float32)
    v1[0], v1[-1] = v1[-1].clone(), v1[0].clone()
    v2 = torch.stack([v1, v1 + 1], -2)
    v2.view(-1)[0] = 1
    v3 = z.diagonal()
    v4 = v3.unsqueeze(0)
    v5 = v1.clamp(min=2)
    v6 = torch.sigmoid(v5)
    v7 = v4[-1, :]
    return (v7, v3, v1, v2, v5)

"""python tests/property/random_programs.py --replay 20261123/19"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", True, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 4
    m = (4, 8, 1)[call]
    x = numbers((6,), torch.float32, 5)[::2]
    y = numbers((n, m), torch.bool, 54)
    z = numbers((2, 3), torch.int64, 84)[:, 1:]
    return (x, y, z,)


def program(x, y, z):
    z.transpose_(-1, 0)
    v1 = z.unsqueeze(-1)
    v2 = torch.roll(v1, x.shape[0] * x.shape[0], 0)
    v1[0], v1[-1] = v1[-1].clone(), v1[0].clone()
    v3 = y.any()
    return (v1, v3, v2)

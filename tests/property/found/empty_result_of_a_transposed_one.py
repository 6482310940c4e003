"""python tests/property/random_programs.py --replay h100d/3754"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (5, 2, 0)[call]
    y = numbers((n, n), torch.float32, 9, grad=True).t()
    z = numbers((6,), torch.bool, 77)
    return (y, z,)


def program(y, z):
    v1 = y - y
    v4 = z.sum().item()
    v1 += y
    return v1

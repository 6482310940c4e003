"""python tests/property/random_programs.py --replay h100c/654"""

import torch
from program_values import numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 3
    m = (7, 8, 0)[call]
    y = numbers((n, m), torch.int64, 88)[::2]
    return (y,)


def program(y):
    v1, v2 = y.chunk(2, -1)
    v3 = v1.float()
    return v3

"""python tests/property/random_programs.py --replay h100c/485"""

import torch
from program_values import numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 8
    m = (7, 4, 7)[call]
    x = numbers((n, m), torch.float32, 63).flatten()[1:]
    i = (3, 3, 5)[call]
    return (x, i,)


def program(x, i):
    v1 = torch.full_like(x, x.numel())
    v1[:i].add_(0)
    return v1

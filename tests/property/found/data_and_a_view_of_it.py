"""python tests/property/random_programs.py --replay 202611250/6210"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 7
    m = (5, 3, 3)[call]
    y = numbers((n * m,), torch.float32, 49)
    i = (2, -1, 5)[call]
    return (y, i,)


def program(y, i):
    v1 = y.round()
    y.data = v1
    v2 = v1.view(-1)
    return v2

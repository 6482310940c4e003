"""python tests/property/random_programs.py --replay h100d/2341"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (2, 7, 2)[call]
    y = numbers((n,), torch.float16, 44)[1:]
    return (y,)


def program(y):
    v3 = y.sum()
    y.data = v3
    return y + 1

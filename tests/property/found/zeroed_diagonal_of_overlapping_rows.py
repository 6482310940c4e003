"""python tests/property/random_programs.py --replay 20261201/1137

An argument whose own elements overlap in memory is written.
"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 1
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    x = numbers((2, 3), torch.float16, 59).as_strided((2, 2), (1, 1))
    return (x,)


def program(x):
    v1 = x.diagonal(x.shape[0] // 2, -2, -1)
    v1.mul_(0)
    return x

"""python tests/property/random_programs.py --replay h100c/93"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 1
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    x = numbers((4, 4), torch.float16, 59, grad=True)
    x = x.expand(3, *x.shape)
    return (x,)


def program(x):
    v1 = -x
    v2 = x[None, ...]
    return (v2, v1)

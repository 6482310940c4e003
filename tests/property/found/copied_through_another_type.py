"""python tests/property/random_programs.py --replay h100c/393"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 1
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    x = numbers((6,), torch.float32, 72, grad=True)[::2]
    return (x,)


def program(x):
    v1 = x.view(torch.int32)
    with torch.no_grad():
        v1[...] = v1
    return x.chunk(2, -1)[1]

"""python tests/property/random_programs.py --replay h100e/4654"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", True, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 3
    m = (7, 4, 8)[call]
    x = numbers((n, m), torch.int64, 6).unsqueeze(1)
    h = huge(2**16, 2**16)
    return (x, h,)


def program(x, h):
    x[(h.shape[0] - 1):, 1::2, ...] = h.shape[0]
    return x[1::2, :-1, None] + 1

"""python tests/property/random_programs.py --replay h100c/562"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (4, 5, 0)[call]
    x = numbers((n,), torch.bool, 33)
    return (x,)


def program(x):
    return x.min(0)[0]

"""python tests/property/random_programs.py --replay 202611251/1494"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", True, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (8, 5, 31)[call]
    m = 7
    x = numbers((n, m), torch.float32, 98)[1:]
    return (x,)


def program(x):
    v1 = x.t() @ x
    x.data = v1
    v2 = v1
    v3 = v2
    return v3

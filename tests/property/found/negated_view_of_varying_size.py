"""python tests/property/random_programs.py --replay 20261128/1692

call 1: values of output 0: 8 of 8: -1.75 for 1.75 at [0, 0]; written of input 1 after writes:
8 of 8: 3.0 for -3.0 at [0, 0]
"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 2
OPTIONS = {}


def inputs(call, state):
    n = (8, 4, 13)[call]
    m = (8, 5, 1)[call]
    x = numbers((n,), torch.float16, 87)
    y = numbers((n, m), torch.float32, 56)[..., :2]
    i = (0, 5, 2147483648)[call]
    s = (0.001, -1.5, -1.5)[call]
    return (x, y, i, s,)


def program(x, y, i, s):
    v1 = torch._neg_view(y)
    v3 = v1.expand(v1.shape)
    v4 = v3
    return v4

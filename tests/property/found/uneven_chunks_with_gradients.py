"""python tests/property/random_programs.py --replay 20261123/397"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (3, 3, 4)[call]
    m = (5, 5, 3)[call]
    y = numbers((n, m), torch.float32, 49, grad=True)[1:]
    s = (-1.5, -1.5, 0.001)[call]
    return (y, s,)


def program(y, s):
    v1, v2 = y.chunk(2, 1)
    v3 = v2 / 2
    v4 = y
    v5 = v4.sign()
    return (v3, v5)

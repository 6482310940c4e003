"""python tests/property/random_programs.py --replay 20261201/864

An argument whose own elements overlap in memory is written.
"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 1
OPTIONS = {}


def inputs(call, state):
    x = numbers((4,), torch.float32, 35).as_strided((2, 2), (1, 1))
    return (x,)


def program(x):
    x[1:] = x[1:] * 2
    v1 = torch.addcmul(x, x, x, value=-2)
    v3 = v1 % 3
    return v3

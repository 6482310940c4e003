"""python tests/property/random_programs.py --replay 20261123/342"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", False, 1
OPTIONS = {}


def inputs(call, state):
    x = numbers((5,), torch.float32, 20)
    z = numbers((), torch.bfloat16, 68)
    return (x, z,)


def program(x, z):
    x.index_fill_(-1, torch.tensor([0]), z)
    return x

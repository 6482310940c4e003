"""python tests/property/random_programs.py --replay 20261201/518"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", True, 1
OPTIONS = {}


def inputs(call, state):
    x = numbers((2, 3), torch.bfloat16, 69)
    return (x,)


def program(x):
    v2 = x
    v9 = v2.prod(-2)
    v10, v11 = v9.tensor_split(2, 0)
    v11.clamp_min_(v10.shape[0] * v10.shape[0])
    v10.sub_(v11)
    v13 = F.dropout(v11, 0.5)
    return v13

"""python tests/property/random_programs.py --replay 202611250/951"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 1
OPTIONS = {}


def inputs(call, state):
    x = numbers((), torch.float16, 94)
    y = numbers((2, 3), torch.bool, 43)[1:]
    z = x.view(-1)
    b = (True, False, True)[call]
    return (x, y, z, b,)


def program(x, y, z, b):
    v1 = y.bool()
    z.index_put_((torch.tensor([0, -1]),), z[0].clone(), accumulate=True)
    v2 = x ** 2
    v1[::2] = 2
    v9 = v2.tolist()
    return v1

"""python tests/property/random_programs.py --replay h100e/3963"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", False, 2
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    x = numbers((2, 2, 8), torch.bfloat16, 65, grad=True).transpose(0, -1)
    return (x,)


def program(x):
    v1 = x.as_strided(x.shape, x.stride())
    v4 = v1.as_strided((2, 2), (1, 2), 1)
    v5 = v4.as_strided((3,), (0,), (v1.shape[0] - 1))
    torch._dynamo.graph_break()
    v11 = v5 * 2
    return v11

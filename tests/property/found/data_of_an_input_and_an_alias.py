"""python tests/property/random_programs.py --replay 202611250/4337"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "inference_mode", True, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 2
    m = 5
    x = numbers((2, n), torch.float32, 65)[::2]
    y = numbers((), torch.float32, 2)
    j = (-1, 2147483647, 1)[call]
    i = (2, 0, 0)[call]
    return (x, j, i,)


def program(x, j, i):
    v1 = x.select(-1, x.shape[0])
    v2 = v1
    v3 = v2
    v1 += 1.25
    x.data = v1
    return v3

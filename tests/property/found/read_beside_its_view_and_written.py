"""python tests/property/random_programs.py --replay 202611251/8097"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "inference_mode", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (5, 2, 4)[call]
    m = (2, 2, 8)[call]
    x = numbers((), torch.float32, 37)
    y = numbers((), torch.float32, 60)
    z = numbers((n, n), torch.uint8, 93)[1:]
    s = (0.0, 3.25, -1.5)[call]
    return (x, y, z, s,)


def program(x, y, z, s):
    v1 = z[1:]
    v2 = v1[:]
    v3 = z.as_strided((3,), (0,), v2.shape[1])
    v1.zero_()
    v5 = v3.sqrt()
    v6 = v5.sum(0, keepdim=True)
    return (v1, v5)

"""python tests/property/random_programs.py --replay h100e/3766"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = 7
    m = (8, 3, 5)[call]
    x = numbers((n, n), torch.int16, 92)
    x = x[1:]
    s = (0.5, 0.0, 0.0)[call]
    b = (False, False, False)[call]
    return (x, s, b,)


def program(x, s, b):
    v1 = x.expand(2, *x.shape)
    v2 = v1[::2, 1::2, :2]
    v2.neg_()
    v3 = v2.diagonal(v2.shape[0] // 2, -2, 2)
    v3 += v3
    v4 = torch.full((v3.shape[0] // 2, 2), (b * 2))
    v5 = v2.as_strided((v2.shape[1],), (1,), v2.shape[1])
    return (v3, v2, v4, v5, v1)

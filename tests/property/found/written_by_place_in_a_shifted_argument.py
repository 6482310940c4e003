"""python tests/property/random_programs.py --replay 202611250/2356"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", True, 3
OPTIONS = {}


def inputs(call, state):
    n = (7, 5, 4)[call]
    m = (7, 3, 7)[call]
    x = numbers((n, 2, m), torch.float32, 73).flatten()[1:]
    s = (0.0, 0.0, -1.5)[call]
    return (x, s,)


def program(x, s):
    v1 = x.as_strided((2, 2), (1, 2), 1)
    for _ in range(2):
        v1.tanh_()
    v2 = v1
    v4 = v2.sign()
    v5 = v4.masked_fill(v4 < 0, (2 * 2))
    return v5

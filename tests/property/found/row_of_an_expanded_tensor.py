"""python tests/property/random_programs.py --replay h100c/972

PyTorch 2.11 guards no index of a select.
"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", True, 3
OPTIONS = {}


def inputs(call, state):
    n = (7, 7, 8)[call]
    m = (2, 3, 5)[call]
    x = numbers((2, 3), torch.float32, 91)[1:]
    y = numbers((6,), torch.bfloat16, 70)
    y = y.expand(3, *y.shape)
    z = numbers((n, m), torch.int64, 0)
    i = (4294967299, 2147483647, 2147483648)[call]
    return (x, y, z, i,)


def program(x, y, z, i):
    v1 = y.flatten(1)
    v2 = torch.tanh(y)
    v2.add_(1)
    v3 = F.dropout(v2, 0.5)
    v4 = v1.select(-2, 2)
    v5 = F.dropout(v4, 0.5)
    return (v2, v1, v3, v5)

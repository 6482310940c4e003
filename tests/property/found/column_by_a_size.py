"""python tests/property/random_programs.py --replay h100c/965

PyTorch 2.11 guards no index of a select.
"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (7, 7, 3)[call]
    m = (8, 5, 8)[call]
    x = numbers((n, m), torch.int64, 78)
    j = (1, -1, 1)[call]
    b = (False, True, False)[call]
    return (x, j, b,)


def program(x, j, b):
    v1 = x.to(torch.float32)
    v2, v3 = v1.chunk(2, 0)
    v4 = v3.select(-1, v2.shape[0])
    v5 = torch.zeros(3).add_(v4.shape[0] * v4.shape[0])
    v6 = v4.index_select(0, torch.tensor([0, 0]))
    v4.index_add_(0, torch.tensor([0]), v4.narrow(0, -1, 1).clone())
    v7 = v5.repeat(2, 1)
    v8 = v5.squeeze(-1)
    v9 = torch.full_like(v6, 0.5)
    v10 = v4.bool()
    v3.tanh_()
    return (v6, v1, v8, v2, v9, v10)

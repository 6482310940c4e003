"""python tests/property/random_programs.py --replay 20261201/1478

An argument whose own elements overlap in memory is written.
"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 1
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (7, 8, 4)[call]
    m = (4, 8, 4)[call]
    y = numbers((n, 2, m), torch.uint8, 53).as_strided((2, 2), (1, 1))
    b = (False, False, False)[call]
    return (y, b,)


def program(y, b):
    v1, v2 = y.unbind(-1)
    v1.neg_()
    v4 = v2.float()
    return v4

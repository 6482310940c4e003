"""python tests/property/random_programs.py --replay 20261201/982

How many values of a sigmoid are equal is for roundings to say.
"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (4, 4, 31)[call]
    m = (8, 2, 7)[call]
    x = numbers((n, 2, m), torch.float32, 12)
    return (x,)


def program(x):
    v2 = torch.sigmoid(x)
    v10 = v2.unique()
    v11 = v10
    return v11

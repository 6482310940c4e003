"""python tests/property/random_programs.py --replay 20261601/277"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 2
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (2, 4)[call]
    x = numbers((n * 5,), torch.uint8, 75)[::2]
    return (x,)


def program(x):
    x.unsqueeze_(0)
    v1 = x.as_strided((2,), (1,))
    v2 = v1.argmax(-1)
    x[1:] = x[:-1].clone()
    return v2

"""An int that is negative beside bytes wraps as they do: the engine was not built for it."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 2
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (7, 4, 7)[call]
    m = (2, 2, 1)[call]
    x = numbers((n, m), torch.uint8, 65)
    i = (2147483647, 2, 2)[call]
    return (x, i,)


def program(x, i):
    x += -i
    return x

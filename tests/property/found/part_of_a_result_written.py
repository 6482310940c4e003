"""A write into one of several views of a result, which eager mode refuses."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    x = numbers(((8, 31, 7)[call],), torch.float32, 96, grad=True)
    return (x, call > 0)


def program(x, write):
    v1, v2 = (x * 2).chunk(2)
    torch._dynamo.graph_break()
    if write:
        v2.mul_(2)
    return v1, v2

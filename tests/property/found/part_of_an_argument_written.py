"""A write into one of several views of an argument, which eager mode refuses, was taken."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", True, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 7
    m = (8, 31, 7)[call]
    x = numbers((n * m,), torch.float32, 96, grad=True).as_strided((2, 2), (1, 1))
    return (x, call > 0)


def program(x, write):
    v1, v2 = x.split([1, x.shape[-1] - 1], -1)
    v3 = v1.unbind(1)[-1]
    torch._dynamo.graph_break()
    v6 = v1.expand(v1.shape)
    if write:
        v2[:2] = v2[:2] * 2
    return {"0": v1, "1": v3, "2": v6, "3": v2}

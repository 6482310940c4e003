"""A detached argument that is given data of another type: as a view it could not be traced."""

import torch
from program_values import numbers

MODE, DYNAMIC, CALLS = "autocast", False, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (2, 4, 8)[call]
    x = numbers((n * 7,), torch.int16, 65).expand(3, n * 7)
    z = numbers((), torch.bfloat16, 42)
    return (x, z,)


def program(x, z):
    v1 = x.detach()
    v1.data = z
    v1.clamp_min_(4)
    return {"0": v1}

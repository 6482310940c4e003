"""A part that is the whole tensor, written: a scatter of so many entries could not be built."""

import torch
from program_values import numbers

MODE, DYNAMIC, CALLS = "no_grad", False, 2
OPTIONS = {}


def inputs(call, state):
    return (numbers((2**16,), torch.int64, 5),)


def program(x):
    v1 = x // 3
    v2 = x.as_strided(x.shape, x.stride())
    v2.copy_(v1)
    v1.neg_()
    return {"0": v1}

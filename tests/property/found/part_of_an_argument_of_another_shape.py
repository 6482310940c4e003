"""The gradient of a part of an argument of another shape, refused in eager mode, was given."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (7, 8, 3)[call]
    x = numbers((n,), torch.float32, 63, grad=True) * 1
    y = x.view(-1)
    return (x, y,)


def program(x, y):
    v3, v4 = y.split([1, y.shape[-1] - 1], -1)
    x.squeeze_()
    return v4

"""as_strided of a tensor whose parts are written: `chunk` gives a list, which has no strides."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (5, 4, 4)[call]
    m = 3
    x = numbers((), torch.float32, 86)
    y = numbers((n, n), torch.int32, 31)
    z = numbers((n, m), torch.float32, 93, grad=True)
    z = z.expand(3, *z.shape)
    j = (-3, -2147483648, 1125899906842624)[call]
    return (x, y, z, j,)


def program(x, y, z, j):
    v1 = y.unbind(-1)[0]
    v2 = v1.expand_as(v1)
    v3 = -v2
    v4 = v3.as_strided((2,), (1,))
    v5, v6 = v4.chunk(2, -1)
    v7 = v1.as_strided((2, 2), (1, 2), 1)
    with torch.no_grad():
        v3[1:] += -2
    v6.t().mul_(v6)
    v8 = F.layer_norm(v6.float(), v6.shape[-1:])
    return (v7, v6, v3, v8, v7)

"""Guards on sizes of the tensor that an argument is a view of, which Dynamo cannot ask for."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", True, 3
OPTIONS = {}


def inputs(call, state):
    n = 5
    m = (8, 2, 8)[call]
    x = numbers((n, m), torch.float64, 25)
    y = numbers((n, m), torch.float32, 79, grad=True)[::2]
    y = x[1:]
    j = (3, 5, 5)[call]
    s = (2.0, 2.0, -1.5)[call]
    return (x, y, j, s,)


def program(x, y, j, s):
    v1 = x.sign()
    v2 = x.as_strided((3,), (0,), x.shape[0] // 2)
    v3 = y.view(y.shape[1], -1)
    v4 = x.new_full(x.shape, -j)
    v5 = v4.float().mean(-1)
    v6 = v3.detach()
    v6.view(-1)[(v6.shape[0] - 1)] = 1
    v9 = v6.as_strided((3,), (0,), v1.shape[0] // 2)
    v6.mul_(v3)
    v10 = v6.t()
    return (v2, v6, v10, y)

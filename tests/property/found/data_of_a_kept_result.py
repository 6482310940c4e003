"""`x.data = y` of what a graph before has kept for its gradients, which were wrong."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = 8
    m = 3
    x = numbers((), torch.int8, 27)
    x = x.expand(3, *x.shape)
    y = numbers((n, m), torch.float32, 79, grad=True)[..., :2]
    z = numbers((2, n), torch.float32, 81, grad=True)
    s = (2.0, -1.5, 0.001)[call]
    return (x, y, z, s,)


def program(x, y, z, s):
    v7 = torch.relu(z)
    v8 = v7.t() @ v7
    v9 = v8 @ v8.t()
    v10 = int(v9.sum())
    v7.data = z
    v11 = v9.view(v9.shape[1], -1)
    v12 = v9.permute(1, 0)
    v13 = torch.add(v12, v11, alpha=0.5)
    v14 = v13 + -v10
    v15 = torch.stack([v14, v14 + 1], 0)
    return [v15, v13, z]

"""A view of a square that is written behind a change of its shape, and then of a larger square: no
guard is about what it is a view of, and the engine had the first one's shape."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (7, 8, 5)[call]
    m = (7, 5, 0)[call]
    x = numbers((n, n), torch.float32, 43).as_strided((2, 2), (1, 1))
    return (x,)


def program(x):
    v1 = x[0]
    v2 = v1.new_full(v1.shape, 1.25)
    v3 = v2 + 2
    v2.index_add_(0, torch.tensor([0]), v2.narrow(0, -1, 1).clone())
    v4 = v3.float().mean(0)
    x.unsqueeze_(0)
    v5 = torch.stack([v3, v3 + 1], -1)
    v6 = x.diagonal()
    v1 *= 2
    v7 = v3.repeat(2, 1)
    v7.neg_()
    v8 = v1.prod(-1)
    return (v4, v8, x, v8)

"""index_fill_ of a number into a tensor without elements, whose dimension has none either."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (4, 2, 0)[call]
    m = (8, 2, 2)[call]
    x = numbers((n, 2, m), torch.bool, 55)
    y = numbers((n, n), torch.float32, 78)
    return (x, y,)


def program(x, y):
    v1 = F.threshold(y, 2, -1)
    v2 = v1.sort(-2)[0]
    v3 = v2.new_full(v2.shape, 2)
    torch._dynamo.graph_break()
    v4 = v3.as_strided(v3.shape, v3.stride())
    v2.index_fill_(-1, torch.tensor([0]), 0.5)
    return (v4, v3)

"""Random numbers like a tensor that nothing else reads (PyTorch 2.11): its engine had no result."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (4, 5, 5)[call]
    m = (2, 3, 0)[call]
    x = numbers((n, n), torch.float32, 25).transpose(0, -1)
    b = (False, False, True)[call]
    return (x, b,)


def program(x, b):
    v1 = x.view(x.shape[1], -1)
    v3 = v1.gather(-2, torch.zeros_like(v1, dtype=torch.int64))
    v10 = v3.masked_select(v3 > 0)
    v11 = v3 // 3
    v12 = torch.rand_like(v11)
    return v12

"""index_fill of a tensor whose columns lie in memory first: PyTorch 2.11's decomposition writes in
place into a graph that may not have that, 2.13's has an operator without a converter."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 1
OPTIONS = {}


def inputs(call, state):
    n = (2, 2, 3)[call]
    x = numbers((n,), torch.bfloat16, 99)[..., :2]
    y = numbers((2, 3), torch.float64, 91).unsqueeze(1)
    z = numbers((2, 3), torch.bool, 31).t()
    s = (0.0, 2.0, 3.25)[call]
    return (x, y, z, s,)


def program(x, y, z, s):
    v3 = torch.empty_strided((2, 3), (1, 4)).copy_(0 + torch.zeros(2, 3))
    v3.index_fill_(1, torch.tensor([0]), 0.5)
    return v3

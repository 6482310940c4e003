"""A result that AOTAutograd keeps for the backward graph and the program writes: PyTorch raises."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", True, 3
OPTIONS = {}


def inputs(call, state):
    n = 4
    m = 5
    x = numbers((2, n), torch.bfloat16, 98, grad=True).transpose(0, -1)
    y = numbers((n,), torch.int32, 72)
    h = huge(2**31 + n)
    return (x, y, h,)


def program(x, y, h):
    v1, v2, v3, v4 = y.unbind(-1)
    v5 = torch.lerp(x, x + 1, 0.25)
    v6 = v5.cumsum(-2)
    v7 = v6.amax(-1)
    if v7.sum() > 0.1:
        v7.index_put_((torch.tensor([0, -1]),), v7[0].clone(), accumulate=True)
    else:
        v6[torch.tensor([0, -1])] = v1.numel()
    v13 = F.softplus(v5)
    return {"0": v13, "1": v5, "2": v13}

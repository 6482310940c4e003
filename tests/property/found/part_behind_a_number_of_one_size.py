"""python tests/property/random_programs.py --replay 202611251/3225"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", True, 3
OPTIONS = {}


def inputs(call, state):
    n = 5
    m = 7
    x = numbers((4, 4), torch.float16, 17)
    x = x.expand(3, *x.shape)
    return (x,)


def program(x):
    v1 = -x
    v1[:, 0, (v1.shape[0] - 1):] = (2 + x.shape[0])
    v2 = F.leaky_relu(v1, 1.25)
    v3 = v1 + 1.25
    v4 = F.softmax(v2.float(), 0)
    v5 = v4.max(0)[0]
    v6, v7 = v5.split(3, 1)
    v8 = v3.take(torch.tensor([0, 1]))
    v9 = v8.argmax(-1)
    v10 = torch.roll(v8, -1, -1)
    return (v9, v10)

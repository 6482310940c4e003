"""python tests/property/random_programs.py --replay 20261123/63"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (8, 8, 2)[call]
    m = (3, 8, 3)[call]
    x = numbers((n,), torch.float16, 92, grad=True) * 1
    return (x,)


def program(x):
    v1 = x.view(torch.int16)
    v2 = v1.select(-1, x.shape[0] // 2)
    v3 = v1.view(torch.int32)
    v4 = v3.argmax(-1)
    v5 = v2 | 1
    torch._dynamo.graph_break()
    v6 = v3.round()
    return {"0": v2, "1": v1, "2": v6}

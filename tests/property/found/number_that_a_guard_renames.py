"""python tests/property/random_programs.py --replay 20261124/72"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "inference_mode", True, 3
OPTIONS = {}


def inputs(call, state):
    n = (8, 8, 3)[call]
    m = 2
    x = numbers((n,), torch.int8, 70)[::2]
    z = numbers((2, n), torch.bfloat16, 14).t()
    b = (True, True, False)[call]
    j = (5, -2147483648, 2147483648)[call]
    module = state.setdefault("module", Affine(4, 1))
    state["parameters"] = [*module.parameters()]
    with torch.no_grad():
        module.w.add_(call)
    return (x, z, b, j,)


def program(x, z, b, j):
    v1 = z.narrow(-2, (x.shape[0] - 1), z.shape[0] // 2)
    v3 = v1[None, j:]
    v3.clamp_(-2, -b)
    v4, v5 = v3.chunk(2, -1)
    v6 = v4.min(0)[0]
    v7 = torch.relu(v6)
    return v7

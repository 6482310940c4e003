"""python tests/property/random_programs.py --replay 202611250/1517"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "inference_mode", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (7, 7, 4)[call]
    m = 7
    x = numbers((n, 2, m), torch.float16, 53)[1:]
    b = (True, True, False)[call]
    return (x, b,)


def program(x, b):
    v1 = x.as_strided((2, 2), (1, 2), 1)
    for _ in range(2):
        v1.t().mul_(2)
    v2 = torch.add(x, x, alpha=-b)
    v3 = torch.relu(x)
    v4 = v3[:x.shape[0] // 2, :, None] + 1
    return [v4, v2]

"""python tests/property/random_programs.py --replay 202611251/7369"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "inference_mode", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (2, 2, 13)[call]
    m = (5, 3, 3)[call]
    x = numbers((n, m), torch.float32, 18).t()
    y = numbers((n, m), torch.bfloat16, 87)
    z = numbers((n, m), torch.float16, 74).as_strided((2, 2), (1, 1))
    j = (1, -1, 4)[call]
    return (x, y, z, j,)


def program(x, y, z, j):
    y.data = y
    z.zero_()
    v2 = x.chunk(2, -1)[0]
    v3 = z.as_strided((3,), (0,), x.shape[0] // 2)
    v4 = z.to(torch.int64)
    v5 = v4.sqrt()
    return (v2, v5)

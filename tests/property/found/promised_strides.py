"""Strides that PyTorch promises and its kernels have not: one element beside broadcast ones."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "inference_mode", True, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (7, 7, 3)[call]
    m = (7, 7, 1)[call]
    x = numbers((n, n), torch.int8, 24)[..., :2]
    y = numbers((n, 2, m), torch.float32, 76)[::2]
    s = (0.001, 0.0, 0.5)[call]
    return (x, y, s,)


def program(x, y, s):
    v1 = y.unfold(-2, 2, 1)
    v2 = v1.sign()
    v3, v4 = x.split([1, x.shape[-1] - 1], -1)
    v5 = y.narrow(-1, 0, y.shape[-1] // 2)
    v6 = F.softplus(v5)
    v7, v8 = v4.tensor_split(2, 0)
    v9 = v7.permute(1, 0)
    v10 = torch.maximum(v1, v3)
    if v10.shape[0] > 3:
        v11 = v8.sign()
    else:
        v11 = v6
    return (v10, v7, v5, v11, y)

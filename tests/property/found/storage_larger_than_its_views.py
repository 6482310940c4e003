"""Arguments in a storage with more than they show, one of them written: the engine was told more
elements than were traced, so that PyTorch ran that graph."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "inference_mode", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = 4
    m = 8
    x = numbers((6,), torch.float32, 29)[..., :2]
    y = numbers((2, 3), torch.bfloat16, 23)
    y = x.view(-1)
    i = (5, 2, 1)[call]
    return (x, y, i,)


def program(x, y, i):
    v1 = x[:2]
    v1 *= 0
    v3 = y * v1
    v8, v9 = v3.split([1, v3.shape[0] - 1], 0)
    return [v9, y]

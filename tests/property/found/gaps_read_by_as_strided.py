"""python tests/property/random_programs.py --replay 20261124/9"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (4, 8, 2)[call]
    m = 3
    x = numbers((2, n), torch.int16, 77).as_strided((2, 2), (1, 1))
    y = numbers((n, n), torch.float16, 80)[:, 1:]
    i = (-3, 2, 7)[call]
    return (x, y, i,)


def program(x, y, i):
    v1 = y.select(0, (y.shape[0] - 1))
    v2 = F.layer_norm(v1.float(), v1.shape[-1:])
    v3 = v1.argmax(0)
    v4 = F.pad(x, (1, y.shape[0]))
    v2.index_put_((torch.tensor([0, -1]),), v2[0].clone(), accumulate=True)
    v5 = y[0, :x.shape[0] // 2]
    y[1:] = y[:-1].clone()
    v6 = y.as_strided((x.shape[1],), (1,), x.shape[1])
    v7 = v4.count_nonzero(-1)
    v6.sin_()
    v6[torch.tensor([0, -1])] = (2 * 2)
    return (v7, v3, v1, v2, x)

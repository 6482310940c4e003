"""python tests/property/random_programs.py --replay h100e/2332"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (4, 8, 2)[call]
    m = 2
    z = numbers((n * m,), torch.uint8, 23)
    return (z,)


def program(z):
    v1 = z.view(torch.int32)
    v1.index_copy_(-1, torch.tensor([0]), v1.narrow(-1, -1, 1).clone())
    v2 = v1 + (2 * 2)
    return v2

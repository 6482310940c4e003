"""python tests/property/random_programs.py --replay 20261201/248"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 1
OPTIONS = {}


def inputs(call, state):
    return ()


def program():
    v4 = torch.empty_strided((2, 3), (1, 4)).copy_((2 * 2) + torch.zeros(2, 3))
    v5, v6 = v4.tensor_split(2, 0)
    v5.add_(v6)
    return v5

"""python tests/property/random_programs.py --replay 202611250/2648"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "inference_mode", None, 1
OPTIONS = {}


def inputs(call, state):
    x = numbers((4,), torch.float32, 3)
    y = numbers((), torch.int16, 23)
    return (x, y,)


def program(x, y):
    v1 = x.exp()
    v1.data = y
    v1.clamp_min_(v1.numel())
    return v1

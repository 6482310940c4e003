"""python tests/property/random_programs.py --replay 20261128/8106

call 1: error of the call: InternalTorchDynamoError (IndexError: list index out of range)
"""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "autocast", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (7, 5, 7)[call]
    m = 8
    x = numbers((n,), torch.uint8, 55)[::2]
    y = numbers((n, 2, m), torch.float32, 68)
    z = torch.complex(*[numbers((2, n), torch.float64, k) for k in (1, 2)]).conj().imag
    return (x, y, z,)


def program(x, y, z):
    z[:z.shape[0], 0] += 2
    v1 = z.float()
    v1.t_()
    v2 = v1.unfold(-1, 2, 1)
    torch._dynamo.graph_break()
    v1.fill_(y.shape[0] * y.shape[0])
    v2.lerp_(v2, 0.5)
    v5 = F.leaky_relu(v1, 2)
    v6 = v5.split(3, 0)[-1]
    return (v1, v6, z)

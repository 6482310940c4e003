"""A result and a view of it, written to behind a graph break: AOTAutograd did not take them for
views of one tensor, so that PyTorch ran that graph."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", True, 3
OPTIONS = {}


def inputs(call, state):
    n = 3
    m = (5, 5, 4)[call]
    x = numbers((n * m,), torch.float32, 92)
    i = (2, 0, -3)[call]
    module = state.setdefault("module", Affine(4, 1))
    state["parameters"] = [*module.parameters()]
    with torch.no_grad():
        module.w.add_(call)
    return (x, i, module,)


def program(x, i, module):
    v1 = torch.lerp(x, x + 1, 0.25)
    v1.unsqueeze_(0)
    v2 = x.all(-1)
    v3 = v1.repeat_interleave(2)
    v4 = v1.view(v1.shape[1], -1)
    v5 = int(v4.sum())
    v6 = v3.amax(0)
    v4[torch.tensor([0, -1])] = i
    v1.div_(2)
    return (v2, v3, v4, v6, v6, v5)

"""A view of an argument that was given other memory than what it is a view of."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    n = (5, 5, 4)[call]
    m = 8
    x = numbers((2, n), torch.int32, 62).t()
    module = state.setdefault("module", Affine(4, 1))
    state["parameters"] = [*module.parameters()]
    with torch.no_grad():
        module.w.add_(call)
    return (x, module,)


def program(x, module):
    v1 = x[:(x.shape[0] - 1)]
    v2 = v1.index_select(-1, torch.tensor([0, 0]))
    v1.data = v2
    v3 = v2 // -2
    v4 = v2.expand(2, *v2.shape)
    v5 = v1.contiguous()
    torch._dynamo.graph_break()
    v6, v7 = v5.chunk(2, -1)
    v8 = v5 // 3
    return [v2, v6, v3, v8]

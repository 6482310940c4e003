"""PyTorch's decomposition of index_fill refuses what eager does not: there is nothing to fill."""

import torch
from program_values import numbers

MODE, DYNAMIC, CALLS = "no_grad", False, 1
OPTIONS = {'min_block_size': 1}


def inputs(call, state):
    return (numbers((0, 3), torch.float32, 6), torch.tensor([1]),)


def program(x, i):
    return (x * 2).index_fill_(1, i, 3.0)

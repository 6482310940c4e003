"""index_fill counts negative places from the end, as index_copy, which computes it, does not."""

import torch
from program_values import numbers

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {"min_block_size": 1}


def inputs(call, state):
    n = (3, 5, 4)[call]
    return (numbers((n, 4), torch.float32, 7).t(), torch.tensor([0, -1]), torch.tensor(-1))


def program(x, places, last):
    v1 = x.index_fill(1, places, 2.5) + 1
    v2 = x.sum().index_fill(0, last, 3) + 1
    x.index_fill_(-1, last, torch.tensor(7))
    return v1, v2

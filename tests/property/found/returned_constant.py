"""A constant that a program returns is the caller's to change: the next call has another one."""

import torch

MODE, DYNAMIC, CALLS = "no_grad", None, 3
OPTIONS = {"min_block_size": 1}


def inputs(call, state):
    return (torch.ones(3),)


def program(x):
    whole = torch.tensor([1, 2])
    return whole, torch.tensor([1, 2])[1], torch.tensor([3.0, 4.0]), x + torch.tensor([5.0])

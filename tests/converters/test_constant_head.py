"""A pointwise prologue without tensors: a constant that an operator reads."""

import pytest
import torch

from parity import check, tensor


@pytest.mark.parametrize("function", [
    lambda x: x + torch.full((5, 7), 2.5).tril(),
    lambda x: x + torch.ones(5, 7).triu(1),
    lambda x: x + torch.full((5, 7), 0.5).softmax(1),
    lambda x: x + torch.full((5, 7), 1.5).sum(1, keepdim=True),
    lambda x: x * torch.full((5, 7), 3.0).cumsum(0),
    lambda x: x + torch.where(torch.ones(5, 7, dtype=torch.bool).tril(), 0.0, -1.0)])
def test_head_of_constants(function):
    check(function, tensor(5, 7))

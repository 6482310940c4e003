"""histc against eager."""

import torch

from parity import check, tensor


def test_histc():
    x = tensor(11, 37)
    check(lambda x: (torch.histc(x), torch.histc(x, 7), torch.histc(x, 5, -1, 1.5), torch.histc(x.t(), 113, -2, 2),
                     torch.histc(x[:1, :1], 4), torch.histc(x, 3, 0, 1)), x)


def test_edges_and_dynamic_sizes():
    x = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 4.0, -1.0, 5.0])
    check(lambda x: (torch.histc(x, 4, 0, 4), torch.histc(x, 6)), x)
    check(lambda x: torch.histc(x, 11, -2, 2), tensor(113), more=[(tensor(41),)], dynamic=True)


def test_of_nothing():
    check(lambda x: (torch.histc(x, 5), torch.histc(x[:0], 3, -1, 1)), torch.zeros(0, 7))

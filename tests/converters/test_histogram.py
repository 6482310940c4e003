"""Histograms against eager."""

import pytest
import torch

from marks import turns
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


@turns(2)
@pytest.mark.parametrize("density", [False, True])
def test_between_edges(density):
    def function(x, edges, w):
        h = torch.histogram
        return (*h(x, 7, density=density), *h(x, 5, range=(-1.0, 1.5), density=density),
                *h(x, edges, density=density), *h(x, 113, weight=w, density=density),
                *h(x, edges, weight=w, density=density), *h(x.t(), 1, density=density))
    check(function, tensor(11, 37), torch.tensor([-3.0, -1.0, 0.5, 2.0]), tensor(11, 37, seed=1).abs(),
          length=37)


def test_values_on_edges_outside_and_none():
    x = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 4.0, -1.0, 5.0, float("nan"), float("inf")])
    check(lambda x: (*torch.histogram(x, 4, range=(0.0, 4.0)), *torch.histogram(x[:1], 3),
                     *torch.histogram(x[:0], 2)), x)


@turns(2)
@pytest.mark.parametrize("density", [False, True])
def test_grids(density):
    def function(x, a, b, w):
        h = torch.histogramdd
        by_edges = h(x[..., :2], [a, b], weight=w, density=density)
        by_number = h(x, [3, 2, 5], density=density)
        ranged = h(x, [2, 3, 4], range=[-3.0, 3.0, -2.0, 4.0, 0.0, 1.0], weight=w, density=density)
        return (by_edges[0], *by_edges[1], by_number[0], *by_number[1], ranged[0], *ranged[1])
    check(function, tensor(2, 41, 3), torch.tensor([-3.0, 0.5, 2.0]), torch.tensor([-4.0, -1.0, 3.0, 4.0]),
          tensor(2, 41, seed=1).abs(), length=41)

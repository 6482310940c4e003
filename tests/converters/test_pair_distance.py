"""Distances between rows, norms of any order and sums of products, against eager."""

import math

import pytest
import torch
import torch.nn.functional as F

from parity import check, check_gradients, tensor

ORDERS = (0.0, 0.5, 1.0, 2.0, 3.5, math.inf)


@pytest.mark.parametrize("rows", [2, 7, 41])
def test_pdist(rows):
    check(lambda x: [F.pdist(x, p) for p in ORDERS], tensor(rows, 11), length=16)


def test_pdist_finds_every_pair():
    x = torch.arange(113.0)[:, None] ** 2
    check(lambda x: F.pdist(x, 1.0), x)


def test_cdist():
    check(lambda x, y, z: [torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist") for p in ORDERS]
          + [torch.cdist(x, z, 1.0), torch.cdist(z[0], y[1], 3.0)],
          tensor(2, 5, 11), tensor(2, 7, 11, seed=1), tensor(1, 3, 11, seed=2), length=16)


def test_cdist_dynamic_and_special():
    check(lambda x, y: (torch.cdist(x, y, 1.0), torch.cdist(x, y, math.inf)), tensor(5, 11), tensor(7, 11),
          more=[(tensor(13, 3), tensor(2, 3))], dynamic=True)
    x = torch.tensor([[1.0, math.nan], [math.inf, 2.0], [3.0, 4.0]])
    check(lambda x, y: (torch.cdist(x, y, 1.0), torch.cdist(x, y, 0.0), torch.cdist(x, y, math.inf), F.pdist(x, math.inf)), x, tensor(2, 2))


def test_norms():
    check(lambda x: [torch.linalg.vector_norm(x, p, dim=1) for p in (0.5, 3, -1, 4.5, -math.inf)]
          + [torch.dist(x, x.flip(0), p) for p in (0, 1, 2, 3, math.inf)] + [F.normalize(x, 3.0)],
          tensor(5, 41), length=64)


def test_corrections_that_are_no_integers():
    check(lambda x: (x.var(1, correction=0.5), x.std(correction=1.3), torch.var_mean(x, 0, correction=2.5)),
          tensor(5, 41), length=64)


def test_sums_of_products():
    check(lambda x, y, w, b, c: (F.bilinear(x, y, w), torch.addbmm(c, b, b.transpose(1, 2), beta=0.5, alpha=2)),
          tensor(5, 7), tensor(5, 11, seed=1), tensor(3, 7, 11, seed=2), tensor(4, 5, 6), tensor(5, 5), length=77)


def test_gradients_of_distances():
    check_gradients(lambda x, y: [torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist") for p in ORDERS[1:]],
                    tensor(2, 5, 11), tensor(2, 7, 11, seed=1), length=64)
    check_gradients(lambda x, y: torch.cdist(x, y, 0.0), tensor(5, 3), tensor(7, 3, seed=1))
    check_gradients(lambda x: [F.pdist(x, p) for p in ORDERS], tensor(7, 11), length=64)
    # Rows that are equal, and equal in part.
    check_gradients(lambda x, y: [torch.cdist(x, y, p) for p in (1.0, 1.5, 2.0, 3.0, math.inf)],
                    torch.tensor([[1.0, 2.0], [0.0, 2.0]]), torch.tensor([[1.0, 2.0], [0.0, 3.0]]))
    check_gradients(lambda x, y: torch.cdist(x, y, 1.0), tensor(1, 4, 5), tensor(3, 2, 5, seed=1), length=16)
    check_gradients(lambda x, y: torch.cdist(x, y, 1.0), tensor(1, 4, 5), tensor(0, 2, 5))

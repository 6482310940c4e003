"""Products of Householder reflectors, traced as products of matrices."""

import pytest
import torch

from torch_vulkan._torch import reflectors

from marks import slow_but, turns
from parity import check, check_gradients, tensor

SHAPES = [(1, 1, 1), (5, 4, 3), (6, 5, 5), (5, 5, 1), (7, 5, 4, 2, 3), (33, 17, 13)]


def product(a, tau):
    return torch.linalg.householder_product(a, tau)


def operands(rows, columns, count, *batch, dtype=torch.float32):
    return (tensor(*batch, rows, columns, dtype=dtype) / columns**0.5,
            tensor(*batch, count, dtype=dtype, seed=1))


@turns(3)
@pytest.mark.parametrize("shape", [*SHAPES, (3, 3, 2, 0), (40, 32, reflectors._MOST)])
def test_products(shape):
    a, tau = operands(*shape)
    check(product, a, tau, length=100 * shape[2])
    expected = product(a, tau)
    actual = torch.compile(product, backend="vulkan", options={"min_block_size": 1})(a, tau)
    assert actual.stride() == expected.stride()


@turns(2)
@pytest.mark.parametrize("shape", slow_but(SHAPES[:5], SHAPES))
def test_gradients(shape):
    check_gradients(product, *operands(*shape), length=shape[0] * shape[2], double=True)


@turns(2)
@pytest.mark.parametrize("seed", range(4))
def test_gradients_of_what_are_no_reflections(seed):
    """tau |v|^2 far from 2, where PyTorch's formula, which divides by reflectors, loses digits: no
    error is above 16 roundings of the largest, whatever eager's."""
    given = [tensor(5, 4, seed=seed).requires_grad_(), (4 * tensor(3, seed=seed)).requires_grad_()]

    def gradients(function, given):
        result = function(*given)
        return torch.autograd.grad(result, given, torch.ones_like(result))
    found = gradients(torch.compile(product, backend="vulkan", options={"min_block_size": 1}), given)
    exact = gradients(product, [t.detach().double().requires_grad_() for t in given])
    for actual, reference in zip(found, exact, strict=True):
        assert (actual - reference).abs().max() <= 2.0**-20 * reference.abs().max()


def test_what_was_not_stored_is_not_read():
    """On and above the diagonal there may be anything."""
    a, tau = operands(6, 4, 3)
    a.masked_fill_(torch.ones(6, 4).triu().bool(), torch.nan)
    check(product, a, tau, length=300)


def test_a_range_of_batches():
    check(product, *operands(6, 4, 3, 2), length=300,
          more=[operands(6, 4, 3, 5), operands(6, 4, 3, 3)])


@pytest.mark.parametrize("shape, dtype", [((5, 5, 0), torch.float32), ((4, 3, 2), torch.float64),
                                          ((40, 40, reflectors._MOST + 1), torch.float32)])
def test_stays_native(shape, dtype):
    given = [t.requires_grad_() for t in operands(*shape, dtype=dtype)]
    compiled = torch.compile(product, backend="vulkan", options={"min_block_size": 1})
    with torch.no_grad():
        assert torch.equal(compiled(*given), product(*given))
    if shape[2]:  # eager gives no gradients of an empty product
        found = torch.autograd.grad(compiled(*given).sum(), given)
        torch.testing.assert_close(found, torch.autograd.grad(product(*given).sum(), given),
                                   rtol=1e-3, atol=1e-3)


def test_wrong_shapes_are_refused_as_by_eager():
    a, tau = tensor(3, 5), tensor(2)
    for function in (product, torch.compile(product, backend="vulkan")):
        with pytest.raises(Exception, match="greater than or equal"):
            function(a, tau)

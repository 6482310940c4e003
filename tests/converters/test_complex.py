"""Complex values inside engines and at their border, against eager."""

import pytest
import torch

from parity import check, check_gradients, tensor


def pairs(*shape, seed=0):
    return torch.complex(tensor(*shape, seed=seed), tensor(*shape, seed=seed + 1))


A, B, X = pairs(3, 5), pairs(3, 5, seed=3), tensor(3, 5, seed=9)


def test_arithmetic():
    check(lambda a, b: (a + b, a - 2 * b, torch.add(a, b, alpha=0.5), -a, a * b, a / b, a.reciprocal(), a.conj() * b), A, B)
    check(lambda a, x: (a + x, x - a, a * x, x * a, a / x, x / a, a * 2.5, a / 4, a + 1, 1.5 - a, a * 2j, a - (1 - 3j), x * 1j, a == a * 1, a != x, a == 1), A, X)
    check(lambda a, b: (a[:, :1] * b, a[0] + b, a.t()[:, None] * b[0, :3], a[0, 0] * b), A, B)


def test_functions():
    check(lambda a: (a.abs(), a.angle(), a.sgn(), torch.exp(a), torch.log(a), a.real, a.imag, a.conj_physical()), A)
    check(lambda x, y: (torch.complex(x, y), torch.polar(x.abs(), y), torch.complex(x[:1], y)), X, X * 2)
    check(lambda a: (a.sum(), a.sum(1), a.mean(0, keepdim=True), a.mean(), a.cumsum(1), a[0, 0].sum()), A, length=15)
    zeros = torch.tensor([0j, 1e30 + 1e30j, 1e-30 - 2e-30j, -3 + 0j, complex(float("inf"), 1)])
    check(lambda a: (a.abs(), a.sgn()[:4], a[1:4] / a[1:4]), zeros)


def test_products_of_matrices():
    check(lambda a, b: (a @ b.t(), a[None].expand(2, 3, 5) @ b.t()[None].expand(2, 5, 3), a @ b[0]), A, B, length=20)


def test_quotients_of_infinities_and_zeros():
    inf, nan = float("inf"), float("nan")
    a = torch.tensor([1 + 1j, 1, complex(inf, 1), complex(1, inf), 0, 1e30 + 1e30j, 2 + 3j, complex(nan, 1)])
    b = torch.tensor([complex(inf, 1), 0, 2, complex(0, inf), 0, 1e-30 + 1e-30j, complex(1, -inf), 1 + 2j])
    check(lambda a, b: (a / b, b.reciprocal(), 1 / b, a.real / b, a / (1 + 2j)), a, b)


def test_lists_of_complex_and_real_tensors():
    z = torch.tensor([1j, 0, 1])
    for x in (torch.tensor([5, 6, 7]), torch.tensor([5., 6, 7]), torch.tensor([True, False, True])):
        check(lambda x, z: (torch.cat([x, z]), torch.cat([z, x, z]), torch.stack([x, z], -1), torch.hstack([x + 1, z * 2]),
                            torch.cat([x[None], z[None]], 1), torch.stack([z[0], x[1]])), x, z)
    for empty in (torch.empty(0), torch.empty(0, dtype=torch.complex64)):
        check(lambda x, z: torch.cat([x, z[None]], 1), empty, z)


def test_truth_is_of_both_parts():
    nan = float("nan")
    check(lambda z: (z.bool(), z.to(torch.bool).float() + 1, torch.where(z.bool(), z + 1, z * 3)),
          torch.tensor([1j, 0, 1, complex(0, nan), complex(nan, 0)]))


def test_movement():
    def function(a, b, i):
        c = torch.cat([a, b], -1)
        return (c.transpose(0, 1) * 1, c.reshape(5, 6), torch.stack([a, b], -1), a.flip(1), a.roll(2, -1), a[:, i],
                a.unsqueeze(-1) * b.unsqueeze(1), torch.where(a.real > 0, a, b), torch.nn.functional.pad(a, (1, 2)),
                a.repeat(2, 1), torch.zeros_like(a), a.split(2, dim=1)[2] * 1, a.select(-1, 2) + b[:, 0])
    check(function, A, B, torch.tensor([4, 0, 2]))
    check(lambda x: (x.to(torch.complex64), x.to(torch.complex64).squeeze() + 1, torch.view_as_complex(x[:, :4].clone().view(3, 2, 2)) * 1), X)
    check(lambda a: (torch.view_as_real(a) * 2, a.clone().real + 1, torch.view_as_real(a.conj().resolve_conj()) + 0), A)


def test_borders():
    """Lazily conjugated tensors, views with gaps, and no elements, in and out."""
    check(lambda a: (a * 2, (a * 2).conj()), A.conj())
    check(lambda a: (a + 1).imag + 1, pairs(5, 6).conj()[:, ::2].t())
    check(lambda x: x + 1, A.conj().imag)
    check(lambda a: a * 2, torch.zeros(0, 3, dtype=torch.complex64))
    check(lambda a: a * 2, A[0, 0])
    check(lambda a, b: a @ b, pairs(5, 0), pairs(0, 3))
    check(lambda a: (a + torch.full_like(a, 2 - 3j), a.new_full((3,), 1.5), torch.ones_like(a) * a), A)
    check(lambda a, b: (a * b).transpose(0, 1), A, B)


def test_rotary_embedding():
    """As written for Llama: pairs of a head's channels turned by complex numbers."""
    def rotate(q, k, turns):
        qc, kc = (torch.view_as_complex(t.float().reshape(*t.shape[:-1], -1, 2)) for t in (q, k))
        turns = turns[None, :, None, :]
        return tuple(torch.view_as_real(t * turns).flatten(3).type_as(q) for t in (qc, kc))
    angles = torch.outer(torch.arange(7.0), 1e4 ** -torch.linspace(0, 1, 8))
    args = tensor(2, 7, 3, 16), tensor(2, 7, 3, 16, seed=1), torch.polar(torch.ones_like(angles), angles)
    check(rotate, *args)
    half = [a.half() if not a.is_complex() else a for a in args]
    check(rotate, *half)


def test_gradients():
    def function(x, y):
        z = torch.complex(x, y)
        w = z * z.conj() / (z + 3) + torch.view_as_complex(torch.stack([y, x], -1)) * x
        return w.abs(), w.real, (w @ z.t()).imag, torch.polar(x.abs(), y).angle()
    check_gradients(function, X, tensor(3, 5, seed=4), length=100)


def test_dynamic_sizes():
    check(lambda a, b: (a * b + a.conj()).abs().sum(1), A, B, more=[(pairs(7, 5), pairs(7, 5)), (pairs(2, 6), pairs(2, 6))],
          dynamic=True, length=6)


def test_what_has_no_dimension_stays_native():
    one = A[0, 0]
    for function, z in ((lambda a: a.cumsum(0), one), (lambda a: a.roll(3), A), (lambda a: a.flip(0), one),
                        (lambda a: a.index_select(0, torch.tensor([0])), one)):
        compiled = torch.compile(function, backend="vulkan", options={"min_block_size": 1})
        torch.testing.assert_close(compiled(z), function(z))


def test_double_stays_native():
    z = torch.randn(3, 5, dtype=torch.complex128)
    with pytest.raises(Exception, match="float64"):
        check(lambda a: a * 2, z)

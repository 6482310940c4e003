"""Gamma's, Bessel's and Airy's functions, orthogonal polynomials and the parts of floats."""

import math

import pytest
import torch

from marks import slow_but, turns
from parity import OPTIONS, check, tensor

S = torch.special
INF, NAN = math.inf, math.nan
EDGES = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0, 2.0, 0.5, 1e-30, -1e-30])

GAMMAS = [torch.lgamma, torch.digamma, S.erfcx, lambda x: torch.polygamma(1, x.abs() + 0.1),
          lambda x: torch.polygamma(2, x), lambda x: torch.polygamma(5, x.abs() + 0.1)]
EVEN = [torch.i0, S.i0e, S.i1, S.i1e, S.bessel_j0, S.bessel_j1, S.spherical_bessel_j0, S.airy_ai]
POSITIVE = [S.bessel_y0, S.bessel_y1, S.modified_bessel_k0, S.modified_bessel_k1,
            S.scaled_modified_bessel_k0, S.scaled_modified_bessel_k1]
POLYNOMIALS = [S.chebyshev_polynomial_t, S.chebyshev_polynomial_u, S.chebyshev_polynomial_v,
               S.chebyshev_polynomial_w, S.shifted_chebyshev_polynomial_t, S.shifted_chebyshev_polynomial_u,
               S.shifted_chebyshev_polynomial_v, S.shifted_chebyshev_polynomial_w,
               S.hermite_polynomial_h, S.hermite_polynomial_he, S.laguerre_polynomial_l,
               S.legendre_polynomial_p]


def test_gammas():
    x = torch.cat([torch.linspace(-8.3, 40, 3001), torch.logspace(-5, 4, 200)])
    check(lambda x: [f(x) for f in GAMMAS], x, double=True, length=40)
    check(lambda x: (torch.lgamma(x), torch.digamma(x), S.erfcx(x)), EDGES)


@turns(2)
@pytest.mark.parametrize("dtype", slow_but(
    (torch.float32, torch.int8), [torch.float32, torch.bfloat16, torch.int8, torch.int64]))
def test_poles(dtype):
    """At whole numbers up to 0. PyTorch's polygamma(1, x) is finite below 0: pi x is rounded."""
    x = torch.tensor([0, -1, -2, -7, -100, 3]).to(dtype)
    check(lambda x: [torch.polygamma(n, x) for n in (0, 2, 3, 4)] + [torch.lgamma(x)], x)
    check(lambda x: (S.zeta(2, x.float()), S.zeta(2.5, x.float())), x)
    trigamma = torch.compile(lambda x: torch.polygamma(1, x), backend="vulkan",
                             options={"min_block_size": 1})
    assert (trigamma(x)[:5] == INF).all() and trigamma(x)[5].isfinite()


def test_incomplete_gammas():
    a = torch.cat([torch.linspace(0.01, 40, 400), torch.logspace(1.3, 4, 100)])[:, None]
    x = a * torch.tensor([1e-6, 0.01, 0.3, 0.69, 0.71, 0.9, 0.99, 1.0, 1.02, 1.2, 1.29, 1.31, 3.0, 50.0])
    check(lambda a, x: (S.gammainc(a, x), S.gammaincc(a, x)), a, x, double=True)
    check(lambda a, x: (S.gammainc(a[:, None], x), S.gammaincc(a[:, None], x)), EDGES, EDGES)


def test_gamma_gradient():
    """Of samples from a gamma distribution by its shape: each formula, and both sides of a switch."""
    a = torch.cat([torch.logspace(-4, 2, 400), torch.tensor([7.99, 8.0, 8.01])])[:, None]
    x = torch.cat([a * torch.tensor([1e-6, 0.01, 0.3, 0.89, 0.91, 0.99, 1.0, 1.02, 1.09, 1.11, 1.31, 3.0, 50.0]),
                   torch.full_like(a, 0.79), torch.full_like(a, 0.81)], dim=1)
    # Eager takes the first argument's shape for the result's.
    check(lambda a, x: torch._standard_gamma_grad(a, x), a.expand_as(x), x, double=True, length=1000)
    check(lambda a, x: torch._standard_gamma_grad(a * 100, x), a.expand_as(x), x.clamp(0.01) * 100, double=True, length=1000)
    check(lambda a, x: torch._standard_gamma_grad(a, x), EDGES[2:8].abs().repeat_interleave(10), EDGES.repeat(6))
    # Static sizes alone: PyTorch has no meta kernel.
    check(lambda a, x: (torch._standard_gamma_grad(a.t(), x[::2] + 0.5) * 2, torch._standard_gamma_grad(a[:0], a[:0])),
          tensor(5, 7).abs(), tensor(14, 5).abs(), length=1000)


def test_gamma_gradient_where_eager_underflows():
    """To 0, as its x^a does. The values: mpmath's derivative of gammainc, in 60 digits."""
    compiled = torch.compile(torch._standard_gamma_grad, backend="vulkan", options=OPTIONS)
    torch.testing.assert_close(compiled(torch.tensor([600.0, 1000, 2000]), torch.tensor([0.25, 0.5, 1e-3])),
                               torch.tensor([0.00324470713, 0.00380260084, 7.25445748e-6]))


def test_training_on_gamma_samples():
    def loss(concentration):
        torch.manual_seed(0)
        return torch._standard_gamma(concentration).square().sum()

    leaves = [tensor(37).abs().requires_grad_() for _ in range(2)]
    loss(leaves[0]).backward()
    torch.compile(loss, backend="vulkan", options={"min_block_size": 1})(leaves[1]).backward()
    torch.testing.assert_close(leaves[1].grad, leaves[0].grad, rtol=1e-5, atol=1e-6)


def test_bessels():
    x = torch.cat([torch.linspace(-30, 30, 3001), torch.logspace(-5, 3, 200)])
    check(lambda x: [f(x) for f in EVEN[6:]], x, double=True, length=100)
    check(lambda x: [f(x) for f in EVEN[:6]], x, double=True, length=100)
    check(lambda x: [f(x) for f in EVEN[:6]], EDGES)
    check(lambda x: [f(x) for f in POSITIVE], x.abs() + 0.01, double=True, length=100)
    check(lambda x: [f(x) for f in POSITIVE], EDGES)


def test_zeta():
    check(lambda s, q: (S.zeta(s, q), S.zeta(3.0, q), S.zeta(s, 2.0)),
          torch.tensor([2.0, 3.0, 1.5, 7.0, 1.0, 0.5, NAN, 4.0]),
          torch.tensor([0.5, 2.5, 11.0, 100.0, 3.0, 2.0, 1.0, 0.25]), double=True, length=40)


def test_quantiles():
    y = torch.cat([torch.linspace(1e-4, 0.9999, 2001), torch.logspace(-37, -4, 200), torch.tensor([0.0, 1.0, 2.0, NAN])])
    check(S.ndtri, y, double=True, length=40)
    check(lambda x: (S.log_ndtr(x), S.ndtr(x)), torch.linspace(-20, 10, 1001), double=True, length=40)


@turns(2)
@pytest.mark.parametrize("k", [0, 4, 8])
def test_polynomials(k):
    x, n = torch.linspace(-1.2, 2.1, 113)[:, None], torch.tensor([-1.0, 0, 1, 2, 3, 6, 7, 11])
    check(lambda x, n: [f(x, n) for f in POLYNOMIALS[k:k + 4]], x, n, double=True, length=256 if k < 8 else 1 << 16)
    check(lambda x, n: [f(x, 5) + f(0.3, n) for f in POLYNOMIALS[k:k + 4]], x, n, double=True, length=256 if k < 8 else 1 << 16)


def test_angles_of_large_degree():
    check(lambda x: [f(x, 100) for f in POLYNOMIALS[:3]], torch.linspace(-0.9, 0.9, 41), length=100_000)


def test_parts():
    x = torch.cat([tensor(1000) * 100, EDGES, torch.tensor([1e-40, -1e-45, 3e38, 0.75, -1.0])])
    check(lambda x: (torch.frexp(x), torch.angle(x), torch.nextafter(x, x.flip(0)),
                     torch.nextafter(x, torch.zeros_like(x))), x)
    check(lambda x, n: (torch.ldexp(x, n), torch.ldexp(x, n.float() + 0.5)), tensor(200),
          torch.arange(-100, 100))


@turns(2)
@pytest.mark.parametrize("dtype", slow_but(
    (torch.float16, torch.int64), [torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]))
def test_dtypes(dtype):
    x = tensor(37, dtype=dtype, low=1, high=6)
    functions = [torch.lgamma, torch.i0, S.i1e]
    if not dtype.is_floating_point:
        functions += [S.bessel_j0, torch.angle, lambda x: S.chebyshev_polynomial_t(x, 3)]
    check(lambda x: [f(x) for f in functions], x, double=dtype.is_floating_point)


def test_views_and_dynamic_sizes():
    check(lambda x, y: (torch.lgamma(x.t()), S.i0e(x[:, ::2]), S.hermite_polynomial_h(x, y)), tensor(5, 7),
          tensor(7, dtype=torch.int64, low=0), more=[(tensor(11, 13), tensor(13, dtype=torch.int64, low=0))],
          dynamic=True)
    check(lambda x: (torch.digamma(x), x + 1), tensor(0, 3))


def test_what_is_no_number():
    x = torch.tensor([NAN, INF, -INF, 0.0, 0.5, -0.0])
    check(lambda x: (torch.heaviside(x, x), torch.logit(x, 0.2), torch.logit(x),
                     torch.ops.aten.native_dropout_backward(x, x > 0, 2.0), torch.polygamma(2, x)), x)
    check(S.modified_bessel_k0, torch.tensor([1e-40, 1e-45, 1e-38, 1e-20]), length=100)
    check(S.zeta, torch.tensor([INF, INF, INF, INF, 2, 2, -INF, 2, INF, INF]),
          torch.tensor([0.5, 1, 2, INF, INF, -INF, 2, -2, 0, -0.5]))

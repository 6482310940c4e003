"""Compiled functions under transforms that engines have no rule for: they run natively."""

import warnings

import pytest
import torch
from torch.autograd import forward_ad as forward
from torch.autograd.functional import jacobian

import torch_vulkan as tv

from helpers import assert_same, engines, vulkan


def work(x):
    return (x.sin() * 2 + 1).exp().sum(0)


def ran_natively():
    return pytest.warns(UserWarning, match="runs natively")


def compiled(function, **options):
    fast = vulkan(function, **options)
    x = torch.randn(3, 4)
    assert_same(fast(x), function(x))
    assert engines(tv.compilations.compilations())
    return fast


def test_jacobian_of_a_batch():
    x = torch.randn(3, 4)
    with ran_natively():
        assert_same(jacobian(compiled(work), x, vectorize=True), jacobian(work, x))


def test_batched_gradients():
    x = torch.randn(3, 4, requires_grad=True)
    got = compiled(work)(x)
    with ran_natively():
        gradients = torch.autograd.grad(got, x, torch.eye(4), is_grads_batched=True)
    assert_same(gradients, torch.autograd.grad(work(x), x, torch.eye(4), is_grads_batched=True))


def scaled(x):
    return torch.nn.functional.linear(work(x)[None], torch.eye(4)).relu()


@pytest.mark.parametrize("function", [work, scaled, lambda x: (work(x), work(x)[1:])])
def test_tangents(function):
    fast = compiled(function)
    x, tangent = torch.randn(3, 4), torch.randn(3, 4)

    def tangents(call):
        with forward.dual_level():
            result = call(forward.make_dual(x, tangent))
            return [forward.unpack_dual(r) for r in (
                result if isinstance(result, tuple) else (result,))]

    with ran_natively():
        got = tangents(fast)
    for mine, eager in zip(got, tangents(function), strict=True):
        assert_same(mine.primal, eager.primal)
        assert_same(mine.tangent, eager.tangent)
    assert_same(fast(x), function(x))  # in the engine again


def test_a_dual_level_without_tangents():
    fast, x = compiled(work), torch.randn(3, 4)
    with forward.dual_level():
        assert_same(fast(x), work(x))


@pytest.mark.parametrize("function", [
    lambda x, b: (b.copy_(x.sin()), b.exp() * 2)[1],
    lambda x, b: (b[:, 0].copy_(x[:, 1] * 2), b.exp() * 2)[1]])
def test_tangents_of_what_is_overwritten(function):
    fast = vulkan(function)
    x, tangent = torch.randn(3, 4), torch.randn(3, 4)
    assert_same(fast(x, torch.ones(3, 4)), function(x, torch.ones(3, 4)))
    results = []
    for call in (fast, function):
        with warnings.catch_warnings(), forward.dual_level():
            warnings.simplefilter("ignore")
            results.append(forward.unpack_dual(call(forward.make_dual(x, tangent),
                                                    torch.ones(3, 4))))
    assert_same(results[0].primal, results[1].primal)
    assert_same(results[0].tangent, results[1].tangent)


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(),
                                          torch.nn.Linear(8, 2))

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("transform", [
    lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),)),
    lambda f, x: torch.func.jacfwd(f)(x), lambda f, x: torch.func.jacrev(f)(x),
    lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    lambda f, x: torch.func.vmap(f)(torch.stack([x, 2 * x]))])
def test_transforms_of_a_program(transform):
    model, x = Layers().eval(), torch.randn(3, 4)
    program = tv.compile(model, inputs=[x], min_block_size=1)
    program(x)
    with ran_natively():
        got = transform(program, x)
    assert_same(got, transform(model, x))
    assert_same(program(x), model(x))


def test_a_tangent_after_calls_of_a_program_that_writes():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(3, 3))

        def forward(self, x, y):
            self.n.add_(x.sin())
            return (y * torch.linalg.eigvals(self.n.clone()).abs().sum()).exp()

    x, y = torch.randn(3, 3), torch.randn(3, 3)
    program, model = tv.compile(Counts(), inputs=[x, y], min_block_size=1), Counts()
    assert_same(program(x, y), model(x, y))
    results = []
    for call in (program, model):
        with warnings.catch_warnings(), forward.dual_level():
            warnings.simplefilter("ignore")
            results.append(forward.unpack_dual(call(x, forward.make_dual(y * 1e-3, y))))
    assert_same(results[0].primal, results[1].primal)
    assert_same(results[0].tangent, results[1].tangent)


def test_tangents_of_a_program():
    class Work(torch.nn.Module):
        def forward(self, x):
            return work(x)

    x, tangent = torch.randn(3, 4), torch.randn(3, 4)
    program = tv.compile(Work(), inputs=[x], min_block_size=1)
    assert_same(program(x), work(x))
    with ran_natively(), forward.dual_level():
        got = forward.unpack_dual(program(forward.make_dual(x, tangent))).tangent
        want = forward.unpack_dual(work(forward.make_dual(x, tangent))).tangent
    assert_same(got, want)

"""The same inputs give the same bits at every call, whatever PyTorch is asked for."""

import pytest
import torch
import torch.nn.functional as F

from marks import slow_but, turns

OPTIONS = {"min_block_size": 1, "require_full_compilation": True}


def rand(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


PLACES = torch.arange(3001) * 7919 % 37  # many to a place
MATRIX, WEIGHT = rand(41, 29), rand(17, 41, 3, 3)
FUNCTIONS = {
    "sums": lambda x: (x.sum(), x.sum(0), x.mean(1), x.var(1), x.norm()),
    "scans": lambda x: (x.cumsum(0), x.logcumsumexp(1), (x / 8 + 1).cumprod(1)),
    "scatters": lambda x: (torch.zeros(37, 41).index_add(0, PLACES, x),
                           torch.zeros(37, 41).scatter_add(0, PLACES[:, None].expand(3001, 41), x),
                           torch.zeros(37, 41).index_put((PLACES,), x, accumulate=True)),
    "long products": lambda x: x.t() @ x,
    "products": lambda x: (x[:1031].t() @ x[:1031], x @ MATRIX, x[:1] @ x[:41]),
    "softmax": lambda x: (x.softmax(0), x.log_softmax(1)),
    "attention": lambda x: F.scaled_dot_product_attention(*(x[:600].view(1, 3, 200, 41),) * 3),
    "convolution": lambda x: F.conv2d(x[:1024].view(1, 41, 32, 32), WEIGHT[:, :, :1]),
    "square convolution": lambda x: F.conv2d(x[:1024].view(1, 41, 32, 32), WEIGHT),
    "resizing": lambda x: F.interpolate(x[:64].view(1, 1, 64, 41), size=(31, 77), mode="bicubic"),
    "histogram": lambda x: torch.histc(x, 19, -3, 3),
}


def compiled(function):
    return torch.compile(function, backend="vulkan", fullgraph=True, options=OPTIONS)


def bits(result):
    return [t.contiguous().view(torch.int32) for t in torch.utils._pytree.tree_leaves(result)]


def same(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@turns(3)
@pytest.mark.parametrize("name", slow_but(
    FUNCTIONS.keys() - {"long products", "square convolution"}, FUNCTIONS))
def test_same_bits_at_every_call(device, name):
    x, other = rand(3001, 41), rand(3001, 41, seed=1)
    function = compiled(FUNCTIONS[name])
    first = bits(function(x))
    for _ in range(4):
        function(other)
        assert same(bits(function(x.clone())), first)


def test_same_bits_of_gradients(device):
    table, places = rand(37, 41).requires_grad_(), torch.arange(1009) * 31 % 37
    weight = rand(5, 41, 3).requires_grad_()

    def gradients():
        torch._dynamo.reset()
        function = compiled(lambda t, w: F.conv1d(F.embedding(places, t).t()[None], w).square())
        return bits(torch.autograd.grad(function(table, weight).sum(), (table, weight)))

    first = gradients()
    assert same(gradients(), first) and same(gradients(), first)


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", ["sums", "scans", "scatters", "resizing"])
def test_deterministic_algorithms_are_what_engines_run(device, deterministic, name):
    """Nothing is refused that PyTorch refuses elsewhere, and the bits are those without it."""
    x = rand(3001, 41)
    asked = bits(compiled(FUNCTIONS[name])(x))
    torch.use_deterministic_algorithms(False)
    torch._dynamo.reset()
    assert same(bits(compiled(FUNCTIONS[name])(x)), asked)

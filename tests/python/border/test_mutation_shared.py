"""Writes to arguments whose memory others show: other arguments, and weights of another graph."""

import torch
from test_mutation import put_slice, spec
from torch import nn

from torch_vulkan._fx import engine_call

from helpers import assert_same, vulkan


def test_arguments_that_share_memory():
    """The other argument is read as it was, and both show the result."""
    def write(cache, other):
        cache[0:2] = other[:2] + 1
        return other * 2

    with torch.no_grad():
        for slices in ((slice(0, 4), slice(2, 6)), (slice(0, 4), slice(4, 8)),
                       (slice(0, 4), slice(0, 4))):
            torch._dynamo.reset()  # no guard of PyTorch's sees that other rows are shared
            fast = vulkan(write)
            storage = torch.arange(48.0).view(8, 6)
            theirs, ours = storage.clone(), storage.clone()
            want = write(theirs[slices[0]], theirs[slices[1]])
            assert_same(fast(ours[slices[0]], ours[slices[1]]), want)
            assert_same(ours, theirs)


def test_an_engine_reads_what_shares_memory_with_what_it_writes_as_it_was():
    def write(cache, other):
        cache[0:2] = other[1:3] + 1
        return (other * 2 + cache).cumsum(0)

    made, fast = [], vulkan(write)
    with torch.no_grad(), engine_call.collected(made):
        fast(torch.randn(4, 6), torch.randn(4, 6))
    storage = torch.arange(48.0).view(8, 6)
    for shift in range(5):
        memory = storage.clone()
        cache, other = memory[:4], memory[shift:shift + 4]
        inputs = [cache if binding["written"] else other for binding in spec(made[0])["inputs"]]
        (result,) = torch.ops.torch_vulkan.execute(inputs, [], made[0].engine)
        want = storage[:4].clone()
        assert_same(result, write(want, storage[shift:shift + 4].clone()))
        assert_same(cache, want)


def test_weights_see_a_write_of_another_graph():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.randn(8, 6))

        def forward(self, x):
            return x @ self.table

    model = Model()
    fast, write = vulkan(model), vulkan(put_slice)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(3, 8)
            assert_same(fast(x), model(x))
            write(model.table, torch.randn(2, 6))
        assert_same(fast(x), model(x))


def test_nothing_is_written_beyond_an_argument():
    """Whose only reader names places behind its end."""
    def f(x, y):
        seen = x.as_strided((4,), (1,), 0) + 1
        torch.add(y, 6, out=x)
        return seen

    base, plain = torch.arange(8.), torch.arange(8.)
    with torch.no_grad():
        got = torch.compile(f, backend="vulkan", options={"min_block_size": 1})(
            base[:1], torch.ones(1))
        assert torch.equal(got, f(plain[:1], torch.ones(1)))
    assert torch.equal(base, plain)

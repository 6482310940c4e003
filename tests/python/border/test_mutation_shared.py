"""Writes to arguments whose memory others show: other arguments, and weights of another graph."""

import random
import warnings

import pytest
import torch
from test_mutation import put_slice, spec
from torch import nn

import torch_vulkan as tv
from torch_vulkan._fx import engine_call
from torch_vulkan._torch.shared_memory import share_elements

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


# Where two arguments of four elements begin; the second in memory of its own where it is None.
PLACES = {"apart": (0, None), "beside": (0, 8), "over": (0, 2), "behind": (4, 6), "closer": (4, 5),
          "turned": (2, 0), "same": (0, 0)}


def add_and_double(a, b):
    a.add_(1)
    b.mul_(2)
    return a + b


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("order", [
    ("over", "behind", "closer", "turned", "over"), ("apart", "over", "apart"),
    ("over", "apart", "over"), ("apart", "same", "beside"), ("beside", "turned", "apart"),
    ("same", "apart", "over")], ids="-".join)
def test_arguments_share_memory_otherwise_than_before(order, dynamic):
    """Of which PyTorch 2.13 has no guard: aot_eager and inductor do what was right for the first
    call."""
    compiled = torch.compile(add_and_double, backend="vulkan", dynamic=dynamic,
                             options={"min_block_size": 1})
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in order:
            memory = [torch.arange(16.), torch.arange(16.), torch.arange(4.), torch.arange(4.)]
            first, second = PLACES[name]
            got, want = (
                call(base[first:first + 4], own if second is None else base[second:second + 4])
                for call, base, own in ((compiled, *memory[::2]), (add_and_double, *memory[1::2])))
            assert torch.equal(got, want), name
            assert torch.equal(memory[0], memory[1]) and torch.equal(memory[2], memory[3]), name


def test_memory_shared_otherwise_is_a_reason():
    compiled = torch.compile(lambda a, b: (a.add_(1), b * 2)[1], backend="vulkan",
                             options={"min_block_size": 1})
    base = torch.arange(16.)
    with torch.no_grad():
        compiled(base[:4], base[2:6])
        with pytest.warns(UserWarning, match="share memory otherwise than .* runs natively"):
            compiled(base[4:8], base[6:10])


def test_what_is_only_read_may_lie_anywhere(recwarn):
    compiled = torch.compile(lambda a, b: a * 2 + b, backend="vulkan",
                             options={"min_block_size": 1})
    base = torch.arange(16.)
    for a, b in ((0, 2), (4, 6), (4, 7)):
        assert torch.equal(compiled(base[a:a + 4], base[b:b + 4]),
                           base[a:a + 4] * 2 + base[b:b + 4])
    assert not [w for w in recwarn if "runs natively" in str(w.message)]


def test_a_program_refuses_arguments_that_share_memory():
    """And are both written to. Rows between the other's rows are no sharing."""
    class Both(nn.Module):
        def forward(self, a, b):
            return add_and_double(a, b)

    program = tv.compile(Both(), [torch.zeros(4), torch.zeros(4)], min_block_size=1)
    got, want = torch.arange(16.), torch.arange(16.)
    for a, b in ((got[:4], got[2:6]), (got[:4], got[:4]), (got[::4], got[3:7])):
        with pytest.raises(ValueError, match=r"argument 'b' shares memory with 'a', .*\.clone"):
            program(a, b)
    assert torch.equal(got, want)
    assert torch.equal(program(got[::4], got[1::4]), add_and_double(want[::4], want[1::4]))
    assert torch.equal(got, want)


@pytest.mark.parametrize("seed", range(3))
def test_which_tensors_share_elements(seed):
    """Beside the places that they show."""
    draw = random.Random(seed)
    for _ in range(100):
        memory = torch.arange(64, dtype=torch.int32)
        pair = []
        for _ in range(2):
            sizes = [draw.choice([1, 2, 3]) for _ in range(draw.randrange(4))]
            strides = [draw.choice([0, 1, 2, 3, 4, 6, 12]) for _ in sizes]
            view = memory.as_strided(sizes, strides, draw.randrange(8))
            halves = strides and strides[-1] == 1 and draw.random() < .3
            pair.append(view.view(torch.int16) if halves else view)
        assert share_elements(*pair) == bool(_bytes(pair[0]) & _bytes(pair[1])), [
            (t.shape, t.stride(), t.storage_offset(), t.dtype) for t in pair]


def _bytes(tensor):
    starts = [tensor.storage_offset()]
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        starts = [start + n * stride for start in starts for n in range(size)]
    return {start * tensor.itemsize + k for start in starts for k in range(tensor.itemsize)}

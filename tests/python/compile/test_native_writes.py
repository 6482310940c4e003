"""Inputs that PyTorch's operators write to in a graph that has engines: where they lie, with
eager's values and versions, whatever reads them."""

import copy

import pytest
import torch

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._fx.native_writes import change

from helpers import assert_same, engines, vulkan

NATIVE = ("index_put", "slice_scatter", "select_scatter", "scatter", "index_copy", "index_add",
          "masked_fill", "mul.Tensor", "add.Tensor", "scatter_add", "cumsum")
OPERATORS = {"torch_executed_ops": {f"aten::{name}" for name in NATIVE}}


def engine_work(k):
    """What an engine computes, whatever is native beside it."""
    return (k.sin() - k).exp().relu()


def put_row(cache, k, pos):
    cache[pos] = k[0]
    return engine_work(k)


def put_slice(cache, k, pos):
    cache[3:5] = engine_work(k)
    return k.sin()


def index_copy(cache, k, pos):
    return engine_work(cache.index_copy_(0, pos, k)[:2]).sum()


def index_add(cache, k, pos):
    cache.index_add_(0, pos, engine_work(k))
    return k.sin()


def scatter(cache, k, pos):
    cache.scatter_(0, pos[:, None].expand(-1, cache.shape[1]), k)
    return engine_work(k)


def nested(cache, k, pos):
    cache[1:6][:, 2:4] = k[0, 0]
    cache[2][1] = k[1, 1]
    return engine_work(k)


def two_parts(cache, k, pos):
    cache[0:2] = k
    cache[4:6] = engine_work(k)
    cache[5] = 0
    return k.sin()


def part_changed(cache, k, pos):
    cache[2:4].mul_(2).add_(engine_work(k))
    return k.sin()


def changed_twice(cache, k, pos):
    cache.mul_(2)
    cache.index_copy_(0, pos, engine_work(k))
    return k.sin()


def read_before(cache, k, pos):
    before = cache[:2].exp().sum()
    cache[2:4] = k
    return before, engine_work(k)


def read_after(cache, k, pos):
    cache[2:4] = k
    return engine_work(cache[3:5]), cache[2].cumsum(0)


def returned_view(cache, k, pos):
    cache[2:4] = engine_work(k)
    return cache[3], cache


def masked(cache, k, pos):
    cache.masked_fill_(k[0, 0] > 100, 7.0)
    return engine_work(k)


IN_PLACE = {f.__name__: f for f in (
    put_row, put_slice, index_copy, index_add, scatter, nested, two_parts, part_changed,
    changed_twice, read_before, read_after, returned_view, masked)}


def read_between(cache, k, pos):
    before = cache.exp()
    cache.mul_(2)
    middle = cache.exp().cumsum(0)
    cache.index_copy_(0, pos, k)
    return before + middle + engine_work(cache)


def shifted_of_a_copy(cache, k, pos):
    cache[:-2] = cache[2:].clone()
    cache[-2:] = engine_work(k)
    return k.sin()


def exchanged(cache, k, pos):
    old = cache[2:4].clone()
    cache[2:4] = k
    k.mul_(2)
    k.add_(engine_work(old))
    return old


def of_its_own_rows(cache, k, pos):
    cache[2:4].mul_(cache[1:3].clone())
    return engine_work(k)


def computed_is_returned(cache, k, pos):
    made = cache * 2
    cache.copy_(made)
    return made, engine_work(k)


def reversed_rows(cache, k, pos):
    cache.copy_(cache.flip(0))
    cache.mul_(3)
    return engine_work(k)


def older_contents(cache, k, pos):
    old = cache.clone()
    cache.mul_(2)
    cache.index_add_(0, pos, k)
    return engine_work(old), old.cumsum(0)


ANY = {**IN_PLACE, **{f.__name__: f for f in (
    read_between, shifted_of_a_copy, exchanged, of_its_own_rows, computed_is_returned,
    reversed_rows, older_contents)}}
MEMORY = {
    "dense": lambda t: t.clone(),
    "transposed": lambda t: t.t().contiguous().t(),
    "offset": lambda t: torch.empty(t.numel() + 1)[1:].view(t.shape).copy_(t),
    "gaps": lambda t: torch.empty(t.shape[0], 2 * t.shape[1])[:, ::2].copy_(t),
}


def arguments(rows=8):
    return torch.randn(rows, 6), torch.randn(2, 6), torch.tensor([1, 6])


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", ANY)
def test_like_eager(name, memory):
    torch.manual_seed(0)
    compilations.clear()
    function, fast = ANY[name], vulkan(ANY[name], **OPERATORS)
    cache, k, pos = arguments()
    theirs, ours = MEMORY[memory](cache), MEMORY[memory](cache)
    alias, version = ours.view_as(ours), ours._version
    with torch.no_grad():
        for call in range(1, 4):
            want_k, got_k = k.clone(), k.clone()
            want, got = function(theirs, want_k, pos), fast(ours, got_k, pos)
            assert_same(got, want)
            assert_same([ours, alias, got_k], [theirs, theirs, want_k])
            assert ours._version == version + call
    assert engines(compilations.compilations())


@pytest.mark.parametrize("name", IN_PLACE)
def test_nothing_of_the_size_of_the_input_is_made(name):
    fast = vulkan(IN_PLACE[name], dynamic=False, **OPERATORS)
    cache, k, pos = arguments(rows=50000)
    with torch.no_grad():
        fast(cache, k, pos)
        assert engines(compilations.compilations())
        with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            fast(cache, k, pos)
    # Rows that an operator shows to an engine are the engine's to read.
    made = [e for e in profile.events() if e.self_cpu_memory_usage > cache.nbytes / 2
            and "torch_vulkan" not in e.name]
    assert not made, [e.name for e in made]


@pytest.mark.parametrize("rows", [slice(0, 8), slice(4, 12), slice(8, 16)])
@pytest.mark.parametrize("written_first", [False, True])
def test_arguments_that_share_memory(rows, written_first):
    """No guard sees that other rows are shared than those that the graph was compiled with."""
    def write(cache, other):
        cache.index_copy_(0, torch.tensor([1, 6]), other[:2])
        return engine_work(other)

    fast = vulkan(write, **OPERATORS)
    with torch.no_grad():
        fast(torch.randn(8, 6), torch.randn(8, 6))
        storage = torch.randn(16, 6)
        apart = torch.frombuffer(storage.numpy(), dtype=torch.float32).view(16, 6)
        ours, theirs = apart.clone(), storage.clone()
        one, two = ours[4:12], torch.frombuffer(ours.numpy(), dtype=torch.float32).view(16, 6)[rows]
        want = theirs[4:12].clone()
        result = write(want, theirs[rows].clone())
        got = fast(one, two)
    assert_same([got, one], [result, want])


def test_sizes_that_change():
    def write(cache, k, pos):
        cache[pos:pos + k.shape[0]] = k
        cache[pos].mul_(2)
        return engine_work(k)

    fast = vulkan(write, dynamic=True, **OPERATORS)
    with torch.no_grad():
        for length, rows, pos in ((8, 2, 3), (9, 3, 2), (33, 5, 20), (8, 2, 6)):
            cache, k = torch.randn(length, 6), torch.randn(rows, 6)
            want, got = cache.clone(), cache.clone()
            assert_same(fast(got, k, pos), write(want, k, pos))
            assert_same(got, want)


def test_complex_numbers():
    """Engines write none."""
    def write(cache, k):
        cache[1:3] = torch.complex(k, k.exp())
        return engine_work(k)

    fast, cache = vulkan(write), torch.randn(8, 6, dtype=torch.complex64)
    want, k = cache.clone(), torch.randn(2, 6)
    with torch.no_grad():
        assert_same(fast(cache, k), write(want, k))
    assert_same(cache, want)


def test_random_numbers():
    def draw(noise, k):
        noise.uniform_(-1, 1)
        return engine_work(k)

    fast, noise, k = vulkan(draw), torch.zeros(8, 6), torch.randn(2, 6)
    want = noise.clone()
    with torch.no_grad():
        for _ in range(2):
            torch.manual_seed(0)
            result = draw(want, k)
            torch.manual_seed(0)
            assert_same(fast(noise, k), result)
            assert_same(noise, want)


def test_in_training():
    """What the backward graph reads is as it was."""
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(6, 6))
            self.register_buffer("seen", torch.ones(8, 6))

        def forward(self, x, pos):
            y = (x @ self.weight + self.seen[:2]).sin()
            with torch.no_grad():
                self.seen.mul_(0.5)
                self.seen.index_copy_(0, pos, y)
            return y * self.seen[1:3].clone()

    ours = Layer()
    theirs = copy.deepcopy(ours)
    fast = vulkan(ours, **OPERATORS)
    for _ in range(3):
        x, pos = torch.randn(2, 6), torch.tensor([1, 6])
        fast(x, pos).sum().backward()
        theirs(x, pos).sum().backward()
        assert_same([ours.seen, ours.weight.grad], [theirs.seen, theirs.weight.grad])


def test_inference_tensors_are_not_written_outside_of_the_mode():
    with torch.inference_mode():
        cache, k, pos = arguments()
    before = cache.clone()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        vulkan(put_row, **OPERATORS)(cache, k, pos)
    assert_same(cache, before)


def test_a_batch_of_inputs():
    fast = vulkan(index_copy, **OPERATORS)
    caches, k, pos = torch.randn(3, 8, 6), torch.randn(2, 6), torch.tensor([1, 6])
    want = caches.clone()
    with torch.no_grad():
        fast(caches[0].clone(), k, pos)
        got = torch.func.vmap(fast, (0, None, None))(caches, k, pos)
        assert_same(got, torch.func.vmap(index_copy, (0, None, None))(want, k, pos))
    assert_same(caches, want)


def test_the_report():
    with torch.no_grad():
        report = tv.dry_run(put_row, [*arguments()], min_block_size=1, **OPERATORS)
    (write,) = report.data["graphs"][0]["writes"]
    assert write["in_place"] and write["engine"] is None and not write["reason"], write


def test_a_change_keeps_its_place():
    """Dead code is what has no users: a change has none."""
    assert change in torch.fx.node._side_effectful_functions

"""Inputs that a compiled function writes to: eager's values, versions and memory, and work that
does not grow with what stays as it is."""

import copy

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._engines.engine import split_vke
from torch_vulkan._fx import engine_call
from torch_vulkan._native import C

from helpers import assert_same, vulkan
from marks import turns


def put_row(cache, k, pos):
    cache[pos] = k
    return k + 1


def put_slice(cache, k):
    cache[3:5] = k
    return k * 2


def put_index(cache, k, pos):
    cache.index_copy_(0, pos, k)
    return k.sum()


def put_inner(cache, k, pos):
    cache[:, :, pos] = k
    return k.relu()


def add_index(cache, k, pos):
    cache.index_add_(0, pos, k)
    return k + 1


def scatter(cache, k, pos):
    cache.scatter_(0, pos, k)
    return k + 1


def scatter_add(cache, k, pos):
    cache.scatter_add_(0, pos, k)
    return k + 1


def nested(cache, k):
    cache[1][:, 2:4] = k
    return k + 1


def two_parts(cache, k):
    cache[0:2] = k
    cache[4:6] = k + 1
    cache[5] = 0
    return k * 3


def read_before(cache, k):
    before = cache.sum()
    cache[2:4] = k
    return before


def read_after(cache, k):
    cache[2:4] = k
    return cache.sum(), cache[3] * 2


def read_both(cache, k):
    before = cache * 2
    cache[2:4] = k
    return before + cache


def returned_view(cache, k):
    cache[2:4] = k
    return cache[3], cache


def returned_alone(cache, k):
    return cache.index_copy_(0, torch.tensor([2, 5]), k)


def returned_copy(cache, k):
    cache[2:4] = k
    return cache.clone()


def overwritten(cache, k):
    cache.copy_(k.sum(0).expand_as(cache))
    return k + 1


def zeroed_then_put(cache, k):
    cache.zero_()
    cache[2:4] = k
    return k + 1


def counted(count, k):
    at = torch.arange(3) + count
    count.add_(3)
    return at * 2, k + 1


def added(cache, k):
    cache.add_(1)
    return k + 1


def shifted(cache, k):
    cache[:-2] = cache[2:].clone()
    cache[-2:] = k
    return k + 1


def reversed_rows(cache, k):
    cache.copy_(cache.flip(0))
    return k + 1


def transposed(cache, k):
    cache[:5, :5] = cache[:5, :5].t().clone() + k[0, 0]
    return k + 1


def doubled_part(cache, k):
    cache[2:4].mul_(2).add_(k)
    return k + 1


def old_and_new(cache, k):
    part = cache[2:4].clone()
    cache[2:4] = k
    return part, cache[2:4] + part


def masked(cache, k):
    cache[cache > 0.5] = 0
    return k + 1


def masked_fill(cache, k):
    cache.masked_fill_(cache > 0.5, 7.0)
    return k + 1


def long(*values):
    return torch.tensor(values)


K = torch.randn(2, 6)
CASES = {
    "row": (put_row, lambda: (torch.randn(8, 6), torch.randn(6), 3)),
    "slice": (put_slice, lambda: (torch.randn(8, 6), torch.randn(2, 6))),
    "index_copy": (put_index, lambda: (torch.randn(8, 6), torch.randn(2, 6), long(1, 7))),
    "index_put": (
        put_inner, lambda: (torch.randn(2, 3, 8, 5), torch.randn(2, 3, 2, 5), long(1, 6))),
    "index_put, twice the same": (
        put_inner, lambda: (torch.randn(2, 3, 8, 5), torch.randn(2, 3, 3, 5), long(1, 6, 1))),
    "index_add": (add_index, lambda: (torch.randn(8, 6), torch.randn(3, 6), long(1, 7, 1))),
    "scatter": (scatter, lambda: (torch.randn(8, 6), torch.randn(2, 6), torch.stack(
        [torch.arange(6), torch.arange(6) % 5 + 2]))),
    "scatter_add": (scatter_add, lambda: (torch.randn(8, 6), torch.randn(3, 6), torch.randint(
        0, 8, (3, 6)))),
    "masked": (masked, lambda: (torch.randn(8, 6), K)),
    "a number that counts": (counted, lambda: (torch.tensor(4), torch.randn(6))),
    "nested": (nested, lambda: (torch.randn(3, 7, 6), torch.randn(7, 2))),
    **{f.__name__: (f, lambda: (torch.randn(8, 6), torch.randn(2, 6))) for f in (
        two_parts, read_before, read_after, read_both, returned_view, returned_alone, returned_copy,
        overwritten, zeroed_then_put, added, shifted, reversed_rows, transposed, doubled_part,
        old_and_new, masked_fill)},
}
MEMORY = {
    "dense": lambda t: t.clone(),
    "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "offset": lambda t: torch.empty(t.numel() + 1)[1:].view(t.shape).copy_(t),
    "gaps": lambda t: torch.empty(*t.shape[:-1], 2 * t.shape[-1])[..., ::2].copy_(t),
}


def calls_alike(function, arguments, memory=MEMORY["dense"], calls=3, **options):
    """Calls eager and compiled by turns on caches of their own; returns the engines' calls."""
    made, fast = [], vulkan(function, **options)
    cache, *rest = arguments
    with torch.no_grad(), engine_call.collected(made):
        theirs, ours = memory(cache), memory(cache)
        alias, version = ours.view_as(ours), ours._version
        for _ in range(calls):
            want, got = function(theirs, *copy.deepcopy(rest)), fast(ours, *copy.deepcopy(rest))
            assert_same(got, want)
            assert_same([ours, alias], [theirs, theirs])
            assert ours._version > version, "a write is counted"
            version = ours._version
    return made


@pytest.mark.parametrize("name", CASES)
def test_like_eager(name):
    torch.manual_seed(0)
    function, make = CASES[name]
    calls_alike(function, make())


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", ["slice", "index_copy", "added", "read_both"])
def test_memory_of_the_input(name, memory):
    torch.manual_seed(1)
    function, make = CASES[name]
    calls_alike(function, make(), MEMORY[memory], calls=2)


def test_the_very_memory_is_written():
    """No copy back: the engine has the input alone."""
    made = calls_alike(put_slice, (torch.randn(8, 6), torch.randn(2, 6)))
    (call,) = made
    info = spec(call)
    assert [binding["written"] for binding in info["inputs"]].count(True) == 1
    assert len(info["outputs"]) == 1, "the cache is no output"


def spec(call):
    return C.vke_info(split_vke(call.vke())[0])


def test_version_is_counted_once():
    cache, fast = torch.randn(8, 6), vulkan(put_slice)
    with torch.no_grad():
        for n in range(1, 4):
            fast(cache, torch.randn(2, 6))
            assert cache._version == n


def groups(call):
    """Workgroups that each dispatch of an engine asks for."""
    return [layer["groups"] for layer in spec(call)["layers"]]


def attend(cache, k, pos):
    """What a decoder does with its cache, but for the attention, which reads all of it."""
    cache.index_copy_(2, pos, k)
    return k * 2


GROWING = {
    "row": (put_row, lambda n: (torch.randn(n, 6), torch.randn(6), 3)),
    "slice": (put_slice, lambda n: (torch.randn(n, 6), torch.randn(2, 6))),
    "index_copy": (attend, lambda n: (torch.randn(1, 2, n, 4), torch.randn(1, 2, 1, 4), long(5))),
    "index_add": (add_index, lambda n: (torch.randn(n, 6), torch.randn(3, 6), long(1, 7, 1))),
    "scatter": (scatter, lambda n: (torch.randn(n, 6), torch.randn(2, 6), torch.stack(
        [torch.arange(6), torch.arange(6) % 5 + 2]))),
    "nested": (nested, lambda n: (torch.randn(3, n, 6), torch.randn(n, 2))),
    "two_parts": (two_parts, lambda n: (torch.randn(n, 6), torch.randn(2, 6))),
    "returned_alone": (returned_alone, lambda n: (torch.randn(n, 6), torch.randn(2, 6))),
}


@turns(3)
@pytest.mark.parametrize("name", [name for name in GROWING if name != "nested"])
def test_work_does_not_grow_with_the_cache(name):
    function, make = GROWING[name]
    work = []
    for length in (16, 16384):
        torch._dynamo.reset()
        (call,) = calls_alike(function, make(length), dynamic=False)
        work.append((groups(call), [b["shape"] for b in spec(call)["outputs"]]))
    assert work[0] == work[1]


def test_nested_views_are_written_through():
    """A part of a part: the rows around it stay."""
    work = []
    for batch in (3, 300):
        torch._dynamo.reset()
        (call,) = calls_alike(nested, (torch.randn(batch, 7, 6), torch.randn(7, 2)), dynamic=False)
        work.append(groups(call))
    assert work[0] == work[1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64,
                                   torch.int32, torch.uint8, torch.bool, torch.complex64])
def test_dtypes(dtype):
    def values(*shape):
        return torch.randint(0, 2, shape).to(dtype)

    def write(cache, k, pos):
        cache[3:5] = k
        cache.index_copy_(0, pos, k)
        return k

    calls_alike(write, (values(8, 6), values(2, 6), long(0, 7)))


def test_values_of_another_dtype():
    calls_alike(put_slice, (torch.randn(8, 6, dtype=torch.float16), torch.randn(2, 6)))


def test_dynamic_sizes():
    def write(cache, k, pos):
        cache[pos:pos + k.shape[0]] = k
        cache.index_copy_(0, torch.arange(k.shape[0]), k)
        return k * 2

    fast = vulkan(write, dynamic=True)
    with torch.no_grad():
        for length, rows, pos in ((8, 2, 3), (9, 3, 2), (33, 5, 20), (8, 2, 6), (7, 3, 3)):
            cache, k = torch.randn(length, 6), torch.randn(rows, 6)
            want, got = cache.clone(), cache.clone()
            assert_same(fast(got, k, pos), write(want, k, pos))
            assert_same(got, want)


class Cached(nn.Module):
    """A layer with a cache of its own, as a decoder has."""

    def __init__(self, length=16):
        super().__init__()
        self.key = nn.Linear(6, 6)
        self.register_buffer("cache", torch.zeros(1, 2, length, 3))

    def forward(self, x, pos):
        k = self.key(x).view(1, -1, 2, 3).transpose(1, 2)
        self.cache.index_copy_(2, pos, k)
        return torch.softmax(k @ self.cache.transpose(-1, -2), -1) @ self.cache


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_cache_in_a_module(mode):
    model = Cached()
    other = copy.deepcopy(model)
    fast, calls = vulkan(model), []
    with mode(), engine_call.collected(calls):
        for step in range(4):
            x = torch.randn(1, 6)
            assert_same(fast(x, long(step)), other(x, long(step)))
            assert_same(model.cache, other.cache)
    assert [b["written"] for b in spec(calls[-1])["inputs"]].count(True) == 1


def test_inference_tensors():
    with torch.inference_mode():
        cache, other = torch.zeros(8, 6), torch.zeros(8, 6)
        fast = vulkan(put_slice)
        for _ in range(3):
            k = torch.randn(2, 6)
            assert_same(fast(cache, k), put_slice(other, k))
            assert_same(cache, other)


def test_inference_tensors_are_not_written_outside_of_the_mode():
    with torch.inference_mode():
        x = torch.randn(3, 4)
    before = x.clone()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        vulkan(lambda x: x.mul_(2).add(1).relu())(x)
    assert_same(x, before)


def test_running_statistics_in_training():
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).train()
    other = copy.deepcopy(model)
    fast = vulkan(model)
    for _ in range(3):
        x = torch.randn(64, 6)  # of few rows a variance may be near 0, which makes roundings large
        fast(x).sin().mean().backward()  # (of squares of a batch norm gradients cancel to nearly 0)
        other(x).sin().mean().backward()
        assert_same([*model.buffers()], [*other.buffers()])
        assert_same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])


def test_an_input_that_requires_grad():
    def step(weight, x):
        with torch.no_grad():
            weight.mul_(0.5)
        return (weight * x).sum()

    fast = vulkan(step)
    theirs, ours = (torch.ones(4, 3, requires_grad=True) for _ in range(2))
    for weight, function in ((theirs, step), (ours, fast)):
        function(weight, torch.arange(3.0)).backward()
    assert_same([ours.detach(), ours.grad], [theirs.detach(), theirs.grad])


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, torch.AcceleratorError])
def test_a_native_call_writes_once(error, monkeypatch):
    """Adding twice would show."""
    fast, cache = vulkan(add_index), torch.zeros(8, 6)
    k, pos = torch.randn(3, 6), long(1, 7, 1)

    def fail(*_):
        raise error("no memory")

    with torch.no_grad():
        fast(cache, k, pos)
        want = cache.clone()
        add_index(want, k, pos)
        version = cache._version
        monkeypatch.setattr(engine_call, "_execute", fail)
        monkeypatch.setattr(engine_call, "_execute_held", fail)
        with pytest.warns(UserWarning, match="natively"):
            fast(cache, k, pos)
    assert_same(cache, want)
    assert cache._version == version + 1


def test_engine_that_is_not_built_writes_once(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("no")

    monkeypatch.setattr(engine_call, "compile_graph", refuse)
    cache, k, pos = torch.zeros(8, 6), torch.randn(3, 6), long(1, 7, 1)
    with torch.no_grad(), pytest.warns(UserWarning, match="was not built"):
        vulkan(add_index)(cache, k, pos)
    want = torch.zeros(8, 6)
    add_index(want, k, pos)
    assert_same(cache, want)


def test_a_profile_writes_nothing():
    cache = torch.zeros(8, 6)
    fast = vulkan(added)
    with torch.no_grad():
        fast(cache, torch.randn(2, 6))
        with tv.profile(runs=3):
            fast(cache, torch.randn(2, 6))
    assert_same(cache, torch.full((8, 6), 2.0))


def test_half_precision_leaves_other_rows_alone():
    cache = torch.full((8, 6), 1 + 2.0 ** -20)
    want = cache.clone()
    k = torch.ones(2, 6)
    with torch.no_grad():
        vulkan(put_slice, enabled_precisions={torch.float32, torch.float16})(cache, k)
        put_slice(want, k)
    assert_same(cache, want)


@pytest.mark.parametrize("level", [4, 5])
def test_what_is_fused_is_measured_beside_writes(level):
    """From these levels on the times of nodes decide what is fused, where results do not yet lie in
    the inputs that they are written over."""
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(64))
            self.register_buffer("calls", torch.tensor(0))

        @torch.no_grad()
        def forward(self, x):
            self.total.add_(torch.relu(x).mean(0))
            self.calls.add_(1)
            return x * self.total

    net, like = Mean(), Mean()
    fast = torch.compile(net, backend="vulkan", options={
        "min_block_size": 1, "pass_through_build_failures": True, "optimization_level": level})
    for _ in range(3):
        x = torch.randn(33, 64)
        torch.testing.assert_close(fast(x), like(x))
    torch.testing.assert_close(dict(net.named_buffers()), dict(like.named_buffers()))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("entries", [1, 2])
def test_an_entry_out_of_range_is_written_nowhere(entries, accumulate):
    def function(x, v, k):
        x.index_put_((k,), v, accumulate=accumulate)
        return v + 1

    x, v = torch.zeros(4, 3), torch.ones(entries, 3)
    with pytest.raises(IndexError, match="may hold a part of its results"):
        vulkan(function)(x, v, torch.tensor([0, 9])[-entries:])
    assert x[1:].eq(0).all()


@pytest.mark.parametrize("place", [9, -1])
def test_caches_keep_what_a_place_outside_of_them_would_change(place):
    """Two writes at one place are one launch; index_copy takes no negative one, as in PyTorch."""
    def step(keys, values, k, v, at):
        keys.index_copy_(0, at, k)
        values.index_copy_(0, at, v)
        return k + v

    keys, values = torch.zeros(4, 3), torch.zeros(4, 3)
    with pytest.raises(IndexError):
        vulkan(step)(keys, values, torch.ones(1, 3), torch.ones(1, 3), torch.tensor([place]))
    assert keys.eq(0).all() and values.eq(0).all()

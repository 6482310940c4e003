"""Graphs that are too small for engines and write to their arguments."""

import copy

import pytest
import torch
from test_mutation import CASES, long

import torch_vulkan as tv

from helpers import assert_same

SMALL = ("row", "slice", "index_copy", "returned_view", "read_both", "added", "returned_alone")


@pytest.mark.parametrize("name", ["row", "slice", "index_copy"])
def test_a_graph_too_small_for_engines_writes_what_it_writes(name):
    """The whole cache is neither read, nor made anew."""
    function, _ = CASES[name]
    arguments = {"row": (torch.randn(6), 3), "slice": (torch.randn(2, 6),),
                 "index_copy": (torch.randn(2, 6), long(1, 7))}[name]
    fast = torch.compile(function, backend="vulkan")
    cache = torch.randn(5000, 6)
    with torch.no_grad():
        fast(cache, *arguments)
        assert not any(c.engines for c in tv.compilations.compilations())
        with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            fast(cache, *arguments)
    made = sum(max(0, event.self_cpu_memory_usage) for event in profile.events())
    assert made < cache.nbytes / 10


@pytest.mark.parametrize("name", SMALL)
def test_a_graph_too_small_for_engines_does_what_eager_does(name):
    function, make = CASES[name]
    cache, *rest = make()
    fast = torch.compile(function, backend="vulkan")
    with torch.no_grad():
        theirs, ours = cache.clone(), cache.clone()
        for _ in range(3):
            want, got = function(theirs, *copy.deepcopy(rest)), fast(ours, *copy.deepcopy(rest))
            assert_same(got, want)
            assert_same(ours, theirs)
            assert ours._version == theirs._version

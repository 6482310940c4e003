"""Writes into tensors of which several elements are one number in memory: what eager does."""

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from helpers import assert_same, flat, vulkan


def windows():
    """Rows that share all but one element with the next."""
    return torch.arange(6.0).unfold(0, 3, 1)


def part(x):
    x[:-1] = x[:-1] * 2
    return x * 2, x


def nested_part(x):
    x[1][:2].mul_(3)
    return x.sum(0), x[1:]


def unbound(x):
    x.unbind(-1)[0].neg_()
    return x.exp()


def diagonal(x):
    x.diagonal(1).zero_()
    return x + 1


def scattered(x):
    x[torch.tensor([0, 2])] = 7.0
    return x.cumsum(0)


def out(x):
    torch.add(x[0].clone(), 1, out=x[2])
    return x.sin()


def inside(x):
    y = x + 1
    v = y.as_strided((2, 2), (1, 1))
    v[0] = 7
    return y, v.sum(-1)


PROGRAMS = [part, nested_part, unbound, diagonal, scattered, out, inside]


def compare(program, arguments, **options):
    want, got = arguments(), arguments()
    expected = program(*want)
    torch._dynamo.reset()
    results = vulkan(program, **options)(*got)
    for a, b in zip([*flat(results), *got], [*flat(expected), *want], strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_written(program, dynamic):
    with torch.no_grad():
        compare(program, lambda: (windows(),), dynamic=dynamic)


def test_an_argument_beside_its_base():
    def program(x, base):
        x[0] = base[-3:] + 9
        return x * 2, base + 1

    def arguments():
        base = torch.arange(6.0)
        return base.unfold(0, 3, 1), base

    with torch.no_grad():
        compare(program, arguments)


def test_the_reason_is_told():
    compilations.clear()
    torch._dynamo.reset()
    with torch.no_grad(), pytest.warns(
            UserWarning, match="vulkan: an argument that is written has, or may have, elements "
                               "that overlap in memory; .* natively"):
        vulkan(part)(windows())
    (record,) = compilations.compilations()
    assert record.coverage == 0
    assert all("overlap in memory" in node.reason for node in record.native)


def test_the_dry_run_tells_it():
    class Part(nn.Module):
        def forward(self, x):
            return part(x)[0]

    (graph,) = tv.dry_run(Part(), [windows()]).data["graphs"]
    assert graph["engines"] == [] and graph["coverage"] == 0
    assert all("overlap in memory" in node["reason"] for node in graph["native"])
    with torch.no_grad(), pytest.raises(ValueError, match="require_full_compilation: .*overlap"):
        vulkan(part, dryrun=True, require_full_compilation=True)(windows())


def test_sizes_that_overlap_later():
    """The strides of both calls are the same, and so are the symbols of their sizes."""
    fast = vulkan(part, dynamic=True)
    with torch.no_grad():
        for width in (4, 8, 12, 5):
            theirs, ours = torch.arange(64.0), torch.arange(64.0)
            expected = part(theirs.as_strided((4, width), (8, 1)))
            for a, b in zip(fast(ours.as_strided((4, width), (8, 1))), expected, strict=True):
                assert_same(a, b)
            assert_same(ours, theirs)


@pytest.mark.parametrize("view", [
    lambda x: x.as_strided((3, 4), (8, 1)), lambda x: x.view(4, 8).t(), lambda x: x.view(2, 4, 4),
    lambda x: x.view(4, 8)[:, ::2], lambda x: x.view(2, 4, 4).permute(2, 0, 1), lambda x: x[:0]])
def test_what_does_not_overlap_is_compiled(view):
    with torch.no_grad():
        for dynamic in (False, True):
            compare(lambda x: x.mul_(2).exp(), lambda: (view(torch.arange(32.0)),),
                    dynamic=dynamic, min_block_size=1, require_full_compilation=True)


@pytest.mark.parametrize("view", [
    lambda x: x[:], lambda x: x[1], lambda x: x[1:], lambda x: x.t(), lambda x: x[:, 1:3],
    lambda x: x.chunk(2)[1], lambda x: x[:, ::2]],
    ids=["whole", "row", "rows", "transposed", "columns", "chunk", "steps"])
def test_views_of_a_matrix_are_compiled(view):
    """Dynamo gives equal sizes of a view and of its base one symbol."""
    for mode in (torch.no_grad, torch.inference_mode):
        for rows in (4, 6):
            with mode():
                compare(lambda x: x.mul_(2).exp(),
                        lambda rows=rows: (view(torch.arange(6.0 * rows).view(rows, 6)),),
                        dynamic=True, min_block_size=1, require_full_compilation=True)


def test_a_program():
    """Whether arguments overlap is known in each call."""
    class Part(nn.Module):
        def forward(self, x):
            return part(x)[0]

    program = tv.compile(Part(), [torch.zeros(4, 3)], min_block_size=1)
    for made in (lambda: torch.ones(4, 3), windows):
        want, got = made(), made()
        assert_same(program(got), part(want)[0])
        assert_same(got, want)


def test_a_program_that_writes_through_such_a_view():
    class Inside(nn.Module):
        def forward(self, x):
            return inside(x)

    with pytest.raises(tv.UnsupportedError, match="overlap in memory.*torch.compile"):
        tv.compile(Inside(), [torch.zeros(4)])

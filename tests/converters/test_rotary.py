"""Rotary position embeddings: of a part of a row, and written into caches by the launch that rotates
them."""

import pytest
import torch

from torch_vulkan import compilations

from marks import slow_but
from parity import FLOATS, tensor

pytestmark = pytest.mark.usefixtures("tactics_of")

LENGTH = 11


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def rotated_part(x, cos, sin):
    part = cos.shape[-1]
    if part == x.shape[-1]:
        return rotated(x, cos, sin)
    return torch.cat((rotated(x[..., :part], cos, sin), x[..., part:]), -1)


def compiled(function):
    return torch.compile(function, backend="vulkan", options={"min_block_size": 1})


def launches():
    (record,) = compilations.compilations()
    (engine,) = record.engines
    return engine.dispatches


def operands(dtype, part=14):
    angles = tensor(2, 1, 1, part)
    return {"q": tensor(2, 1, 6 * 14, seed=1, dtype=dtype),
            "k": tensor(2, 1, 2 * 14, seed=2, dtype=dtype),
            "v": tensor(2, 1, 2 * 10, seed=3, dtype=dtype),
            "cos": angles.cos().to(dtype), "sin": angles.sin().to(dtype)}


def caches(dtype):
    return (tensor(2, 2, LENGTH, 14, seed=4, dtype=dtype),
            tensor(2, 2, LENGTH, 10, seed=5, dtype=dtype))


def step(q, k, v, cos, sin, keys, values, at):
    """What a decoder does before attention: heads out of a product, rotated, written."""
    q, k, v = (x.view(2, 1, heads, -1).transpose(1, 2)
               for x, heads in ((q, 6), (k, 2), (v, 2)))
    q, k = rotated_part(q, cos, sin), rotated_part(k, cos, sin)
    keys.index_copy_(2, at, k)
    values.index_copy_(2, at, v)
    return q * 2, keys.sum(2) + 1, values.sum(2) + 1


PLACES = [(part, at) for part in (14, 6) for at in (0, 7, -1)]


@pytest.mark.parametrize(("part", "at"), slow_but(PLACES[::5], PLACES, rows=True))
def test_keys_are_written_where_they_are_rotated(part, at):
    at = torch.tensor([at % LENGTH])
    given, mine, theirs = operands(torch.float32, part), caches(torch.float32), caches(torch.float32)
    fast = compiled(step)
    for got, want in zip(fast(**given, keys=mine[0], values=mine[1], at=at),
                         step(**given, keys=theirs[0], values=theirs[1], at=at), strict=True):
        torch.testing.assert_close(got, want)
    for got, want in zip(mine, theirs, strict=True):
        assert torch.equal(got, want)
    assert launches() == 4  # it, what is done with the queries, and two sums


@pytest.mark.parametrize("dtype", FLOATS)
def test_types(dtype):
    at = torch.tensor([3])
    given, mine = operands(dtype), caches(dtype)
    exact = {name: x.double() for name, x in given.items()}
    theirs = [x.double() for x in caches(dtype)]
    compiled(step)(**given, keys=mine[0], values=mine[1], at=at)
    step(**exact, keys=theirs[0], values=theirs[1], at=at)
    torch.testing.assert_close(mine[0], theirs[0].to(dtype))
    assert torch.equal(mine[1], theirs[1].to(dtype))


def test_a_position_behind_the_cache_is_an_error():
    given, mine = operands(torch.float32), caches(torch.float32)
    with pytest.raises(IndexError, match="out of"):
        compiled(step)(**given, keys=mine[0], values=mine[1], at=torch.tensor([LENGTH]))


def test_several_positions_are_written_as_before():
    def prompt(q, k, v, cos, sin, keys, values, at):
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        keys.index_copy_(2, at, k)
        values.index_copy_(2, at, v)
        return q, keys + 1, values + 1

    angles = tensor(3, 14)
    given = (tensor(2, 6, 3, 14), tensor(2, 2, 3, 14, seed=1), tensor(2, 2, 3, 10, seed=2),
             angles.cos(), angles.sin())
    mine, theirs, at = caches(torch.float32), caches(torch.float32), torch.tensor([2, 9, 4])
    for got, want in zip(compiled(prompt)(*given, *mine, at), prompt(*given, *theirs, at),
                         strict=True):
        assert torch.equal(got, want)
    assert torch.equal(mine[0], theirs[0]) and torch.equal(mine[1], theirs[1])

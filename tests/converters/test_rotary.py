"""Rotary position embeddings: of a part of a row, behind norms, and written into caches by the launch
that rotates them."""

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


def rms(x, weight):
    """As language models write it: normalised in float32, the weight in the model's type."""
    wide = x.float() if x.dtype != torch.float64 else x
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def normed_step(q, k, v, cos, sin, keys, values, at, weight, weight2):
    """As `step`, with norms of the heads of queries and keys, as Qwen3 has them."""
    q, k, v = (x.view(2, 1, heads, -1) for x, heads in ((q, 6), (k, 2), (v, 2)))
    q, k = (rotated_part(rms(x, w).transpose(1, 2), cos, sin)
            for x, w in ((q, weight), (k, weight2)))
    keys.index_copy_(2, at, k)
    values.index_copy_(2, at, v.transpose(1, 2))
    return q * 2, keys.sum(2) + 1, values.sum(2) + 1


def weights(dtype):
    return {"weight": tensor(14, seed=6, dtype=dtype), "weight2": tensor(14, seed=7, dtype=dtype)}


@pytest.mark.parametrize("part", [14, 6])
@pytest.mark.parametrize("dtype", slow_but((torch.float32, torch.bfloat16), FLOATS))
def test_norms_are_part_of_it(dtype, part, request):
    at = torch.tensor([7])
    given, mine = operands(dtype, part) | weights(dtype), caches(dtype)
    exact = {name: x.double() for name, x in given.items()}
    theirs = [x.double() for x in caches(dtype)]
    got = compiled(normed_step)(**given, keys=mine[0], values=mine[1], at=at)
    want = normed_step(**exact, keys=theirs[0], values=theirs[1], at=at)
    # In 16 bits eager rounds the norm, its product, and those with cos and sin, too.
    near = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {
        "rtol": 0, "atol": 4 * torch.finfo(dtype).eps * float(theirs[0].abs().max())}
    torch.testing.assert_close(mine[0].double(), theirs[0], **near)
    torch.testing.assert_close(got[0].double(), want[0], rtol=near["rtol"], atol=2 * near["atol"])
    assert torch.equal(mine[1], theirs[1].to(dtype))
    if "gpu" in request.node.name:
        assert launches() == 4


def test_a_norm_that_is_read_elsewhere_stays():
    def function(q, k, cos, sin, weight):
        normed = rms(q, weight)
        return rotated(normed, cos, sin), rotated(rms(k, weight), cos, sin), normed + 1

    angles = tensor(2, 1, 14)
    given = (tensor(2, 1, 14, seed=1), tensor(2, 1, 14, seed=2), angles.cos(), angles.sin(),
             tensor(14, seed=3))
    for got, want in zip(compiled(function)(*given), function(*given), strict=True):
        torch.testing.assert_close(got, want)


def test_norms_that_differ_stay():
    def function(q, k, cos, sin, weight):
        return rotated(rms(q, weight), cos, sin), rotated(rms(k, weight) * 2, cos, sin)

    angles = tensor(3, 1, 14)
    given = (tensor(3, 1, 14, seed=1), tensor(3, 1, 14, seed=2), angles.cos(), angles.sin(),
             tensor(14, seed=3))
    for got, want in zip(compiled(function)(*given), function(*given), strict=True):
        torch.testing.assert_close(got, want)


def test_heads_out_of_order_and_of_any_number():
    """Rows of a slice of a product, their heads and positions in turn; a prompt of any length."""
    def prompt(qkv, cos, sin, weight):
        q, k = (x.unflatten(-1, (-1, 14)).transpose(1, 2) for x in qkv[..., 5:].split((56, 28), -1))
        return rotated(rms(q, weight), cos, sin), rotated(rms(k, weight), cos, sin)

    fast = compiled(prompt)
    for length in (5, 9, 4):
        angles = tensor(length, 14)
        given = tensor(2, length, 89, seed=length), angles.cos(), angles.sin(), tensor(14, seed=3)
        for got, want in zip(fast(*given), prompt(*given), strict=True):
            torch.testing.assert_close(got, want)

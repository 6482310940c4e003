"""Operators that put tensors together or move elements about: cat, stack, pads, flips, repeats."""

import pytest
import torch
import torch.nn.functional as F

from parity import FLOATS, INTS, check, check_gradients, check_tactic, on_cpu, tensor


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat_and_stack(dim):
    def function(x, y):
        z = y.narrow(dim, 0, 1)
        return torch.cat([x, y, z], dim), torch.stack([x, y], dim), torch.cat([x], dim) + 1
    check(function, tensor(3, 5, 7), tensor(3, 5, 7, seed=1))


@pytest.mark.parametrize("dtype", FLOATS[1:] + INTS + (torch.bool,))
def test_types(dtype):
    check(lambda x, y: (torch.cat([x, y], 1), torch.stack([x, x]), x.flip(1), F.pad(x, (1, 2),
        value=1),
                        x.roll(2, 0), x.repeat(2, 3)),
          tensor(5, 7, dtype=dtype), tensor(5, 3, dtype=dtype, seed=1))


def test_many_parts():
    check(lambda x: torch.cat([x * i for i in range(1, 20)], 1), tensor(3, 5))


def test_views_and_tails():
    check(lambda x, y: torch.relu(torch.cat([x.t(), y[:, ::2] * 2, y.sum(1, True)], 1) + 1),
          tensor(7, 5), tensor(5, 6))


def test_empty_parts():
    check(lambda x, y, z: (torch.cat([x, y], 0), torch.cat([z, x], 0)), tensor(3, 5), tensor(0, 5),
          tensor(0))


@on_cpu
@pytest.mark.parametrize("shape, dim", [((1, 64, 7, 11), 1), ((3, 5, 41), 1), ((2, 3, 1031), 2),
                                        ((2, 5, 29), 0), ((37,), 0), ((0, 3, 40), 1)])
def test_parts_in_vectors(shape, dim):
    """Parts that lie dense in whole vectors, and others beside them."""
    def function(x, y):
        z = y.narrow(dim, 0, min(1, y.shape[dim]))
        joined = torch.cat([x, z, y * 2, y.flip(0).transpose(0, -1).transpose(0, -1)], dim)
        return torch.relu(joined) + joined.abs(), torch.stack([x, y], dim) + 1

    check_tactic("cat_simd", function, tensor(*shape), tensor(*shape, seed=1))


@on_cpu
def test_parts_in_vectors_of_any_length():
    cases = [(tensor(rows, count, 8), tensor(rows, 5, 8)) for rows, count in (
        (3, 70), (2, 4), (5, 411), (2, 64))]
    check(lambda x, y: torch.cat([x, y, x[:, :4]], 1) * 2, *cases[0], dynamic=True, more=cases[1:])


@pytest.mark.parametrize("pads", [(1, 2), (0, 3, 2, 0), (-1, 2, 1, -2), (1, 0, 0, 0, 2, 1)])
def test_constant_pad(pads):
    check(lambda x: (F.pad(x, pads), F.pad(x, pads, value=-1.5)), tensor(3, 5, 7))


def test_pad_to_infinity():
    check(lambda x: F.pad(x, (1, 1), value=float("-inf")), tensor(3, 5))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_edge_pads(mode):
    check(lambda x, y: (F.pad(x, (2, 1), mode=mode), F.pad(y, (2, 1, 3, 0), mode=mode)),
          tensor(2, 3, 7), tensor(2, 3, 5, 7))


@pytest.mark.parametrize("shape, pads", [
    ((2, 3, 7), (2, 3)), ((2, 3, 7), (4, -2)), ((1, 2, 5, 6), (2, 1, 0, 3)),
    ((1, 2, 5, 6), (-2, 1, 3, -1)), ((1, 2, 1, 2), (2, 1, 2, 3)),
    ((1, 2, 3, 4, 5), (1, 2, 2, 1, 0, 1))])
def test_gradients_of_edge_pads(shape, pads):
    torch._dynamo.reset()
    check_gradients(lambda x: F.pad(x, pads, mode="replicate"), tensor(*shape))


def test_flip_roll_repeat():
    check(lambda x: (x.flip(0), x.flip((1, 2)), x.roll(3, 1), x.roll((1, -2), (0, 2)), x.repeat(2,
        1, 3),
                     x.repeat(2, 1, 1, 2), x.tile(2), x.roll(5)), tensor(3, 5, 7))


def test_cat_of_types():
    """Parts that are computed have another type than the whole: nobody may write them in place."""
    def function(x, y):
        return (torch.cat([x + 1, x.isinf()]), torch.cat([x.long(), x > 0, y * 2], 1),
                torch.stack([x * 2, x > 0]), torch.cat([x.half() + 1, x * 2, (y > 1).half()]),
                torch.cat([(x > 0).t(), x.t() * 2]), torch.cat([y.int() + 1, y.to(torch.int8) + 1]))
    check(function, tensor(5, 7), tensor(5, 7, dtype=torch.int64))


@pytest.mark.parametrize("diagonal", [0, 2, -3])
def test_tril_triu(diagonal):
    check(lambda x: (x.triu(diagonal), x.tril(diagonal)), tensor(3, 5, 7))
    check(lambda x: (x.t().triu(diagonal), x.tril(diagonal) + 1), tensor(5, 7, dtype=torch.int64))


def test_scatters_of_parts():
    def function(x, y, z):
        return (torch.slice_scatter(x, y, 1, 1, 7, 2), torch.select_scatter(x, z, 1, -2),
                torch.slice_scatter(x, x[:2], 0, -2))
    check(function, tensor(5, 11, 7), tensor(5, 3, 7, seed=1), tensor(5, 7, seed=2))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.uint8, torch.int64, torch.float16])
def test_a_part_of_another_type(dtype):
    x = tensor(4, 4).to(dtype)
    y = torch.tensor([[-0.25, 0.5, 0.0, 1e-9], [3.7, -3.7, 120.5, -1.0]])
    if dtype == torch.uint8:
        y = y.abs()
    check(lambda x, y: (torch.slice_scatter(x, y, 0, 1, 3), torch.select_scatter(x, y[0], 1, 2),
                        torch.diagonal_scatter(x, y[1]), torch.diagonal_scatter(x, y[0, :3], 1)),
          x, y)


def test_gradients():
    check_gradients(lambda x, y: (torch.cat([x, y], 1), torch.stack([x, x]), F.pad(x, (1, 2)),
                                  x.flip(0), x.repeat(2, 2), x[1:3, ::2], x.cumsum(0)),
                    tensor(5, 7), tensor(5, 3))


def test_dynamic_shapes():
    check(lambda x, y: (torch.cat([x, y], 0), torch.stack([x, x], 1), F.pad(x, (1, 2)), x.flip(0),
                        x.repeat(2, 3), x.cumsum(0), x.tril()),
          tensor(5, 7), tensor(3, 7), more=[(tensor(11, 2), tensor(2, 2)), (tensor(2, 29),
              tensor(7, 29))],
          dynamic=True, length=16)


def test_reordered_join():
    check(lambda x, y: torch.cat([x * y, x - y], 3).permute(0, 2, 1, 3).contiguous(),
          tensor(2, 3, 5, 4), tensor(2, 3, 5, 4, seed=1))

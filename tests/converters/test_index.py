"""Reads and writes at places that indices name: embedding, gather, index, scatter, index_put."""

import pytest
import torch
import torch.nn.functional as F

from torch_vulkan._base.settings import Settings
from torch_vulkan._native import C

from parity import FLOATS, OPTIONS, check, check_gradients, tensor

aten = torch.ops.aten


def indices(*shape, size, dtype=torch.int64, seed=3):
    return tensor(*shape, dtype=dtype, low=0, high=size, seed=seed)


@pytest.mark.parametrize("dtype", FLOATS)
def test_embedding(dtype):
    check(lambda w, i, j: (F.embedding(i, w), F.embedding(j, w, padding_idx=3) * 2),
          tensor(37, 11, dtype=dtype), indices(3, 5, size=37), indices(7, size=37,
              dtype=torch.int32))


def test_index_select():
    check(lambda x, i: (x.index_select(0, i), x.index_select(1, i), x.index_select(-1, i),
                        x.transpose(0, 1).index_select(0, i)), tensor(5, 7, 11), indices(4, size=5))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather(dim):
    shape = [3, 5, 7]
    shape[dim] = 9
    size = [5, 7, 11][dim]
    check(lambda x, i: (x.gather(dim, i), x.abs().gather(dim, i)), tensor(5, 7, 11),
          indices(*shape, size=size))


def test_scalars_and_lists_of_one():
    one, scalar = torch.zeros(1, dtype=torch.int64), torch.tensor(0)
    check(lambda x, s, i, j: (x.gather(0, i), x.gather(0, j), s.gather(0, i), s.gather(0, j),
                              s.index_select(0, i), x.index_select(0, j)),
          tensor(5), tensor(), one, scalar)
    check(lambda x, s, i, j: (x.scatter(0, j, s), s.scatter(0, i, x[:1]), s.scatter(0, j, s * 2),
                              x.scatter_add(0, i, s), x.scatter(0, j, 2.5)),
          tensor(5), tensor(), one, scalar)


def test_no_indices_of_another_rank():
    none = torch.zeros(2, 0, dtype=torch.int64)
    check(lambda x, i: (x.gather(0, i), x + 1), tensor(5), none)
    check(lambda x, i: (x.scatter(0, i, 2.5), x.scatter_add(0, i, i.float()),
                        x.scatter_reduce(0, i, i.float(), "amax")), tensor(5), none)


def test_advanced_indexing():
    def function(x, i, j):
        return (x[i], x[:, i], x[i, j], x[:, i, j], x[i, :, j], x[i[:, None], j], x[-1 - i], x[i,
            2],
                x[None, i], x[i.view(2, 2), :, 1])
    check(function, tensor(5, 7, 11), indices(4, size=5), indices(4, size=5, seed=4))


@pytest.mark.parametrize("none", [[None], [None, None]])
def test_no_index_at_all(none):
    """Left to PyTorch, which takes it or says why not."""
    x, put = tensor(5, 7), tensor(5, 7)
    for function in (lambda x: torch.ops.aten.index.Tensor(x, none) + 1,
                     lambda x: torch.ops.aten.index_put.default(x, none, put) + 1):
        fast = torch.compile(function, backend="vulkan", options=OPTIONS)
        try:
            expected = function(x)
        except (RuntimeError, IndexError):
            with pytest.raises((RuntimeError, IndexError)):
                fast(x)
        else:
            torch.testing.assert_close(fast(x), expected)


def test_types():
    for dtype in (torch.float16, torch.int64, torch.bool, torch.uint8):
        check(lambda x, i: (x[i], x.gather(0, i), x.index_select(0, i)), tensor(7, dtype=dtype),
              indices(11, size=7))


@pytest.mark.parametrize("dim", [0, 1])
def test_scatter(dim):
    # Each index at most once along the dimension: what torch leaves open otherwise.
    index = torch.stack([torch.randperm(7, generator=torch.Generator().manual_seed(k))[:4]
                         for k in range(3)], 1 - dim)

    def function(x, i, s):
        return (x.scatter(dim, i, s), x.scatter(dim, i, 2.5), x.scatter_add(dim, i, s),
                torch.zeros_like(x).scatter(dim, i, -1))
    check(function, tensor(7, 7), index, tensor(*index.shape, seed=1))


def test_scatter_add_with_collisions():
    check(lambda x, i, s: (x.scatter_add(0, i, s), x.scatter_add(1, i, s)), tensor(5, 7),
          indices(3, 4, size=5), tensor(3, 4, seed=1))


def test_index_put():
    def function(x, i, j, v):
        return (x.index_put((i,), v), x.index_put((i, j), v[:, 0], accumulate=True),
                x.index_put((i,), v[0]), x.index_put((-1 - i,), v, accumulate=True),
                aten.index_put(x, [None, j], v[0, 0], True),
                aten.index_put(x[None], [j - j, None, j], v[:, :1], True))
    check(function, tensor(7, 5), torch.tensor([3, 0, 6]), torch.tensor([1, 4, 2]), tensor(3, 5))


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_of_later_dimensions(accumulate):
    """Index tensors before, between and after sliced dimensions, as gradients of x[:, i] have them.
    Without `accumulate` no two entries name one element."""
    def function(x, i, j, v, w, u):
        put = [aten.index_put(x, [None, i], v, accumulate),
               aten.index_put(x, [None, None, i], w, accumulate),
               aten.index_put(x, [None, i, j], w[:, 0], accumulate),
               aten.index_put(x, [i, None, j], u, accumulate),
               aten.index_put(x, [None, i[:, None], j], w[0, 0], accumulate),
               aten.index_put(x.transpose(0, 2), [None, i], v.transpose(0, 2)[:, :, :1],
                              accumulate),
               aten.index_put(x.half(), [None, i], v.half(), accumulate),
               aten.index_put(x.long(), [None, None, i - 5], w.long(), accumulate)]
        return put
    check(function, tensor(5, 7, 11), torch.tensor([3, 0, 4]), torch.tensor([1, 4, 2]),
          tensor(5, 3, 11, seed=1), tensor(5, 7, 3, seed=2), tensor(3, 7, seed=3))


def test_sums_of_collisions_in_later_dimensions():
    check(lambda x, i, v: (aten.index_put(x, [None, i], v, True),
                           aten.index_put(x, [None, i % 5, i], v[:, :, 0], True)),
          tensor(5, 7, 11), indices(113, size=7), tensor(5, 113, 11), length=113)


def test_sums_of_collisions():
    check(lambda x, i, v: x.index_put((i,), v, accumulate=True), tensor(5, 11), indices(113,
        size=5),
          tensor(113, 11), length=113)


def test_gradients():
    i = indices(41, size=11)
    check_gradients(lambda w: (F.embedding(i, w), w[i], w.index_select(1, i), w.gather(0, i[None,
        :29])),
                    tensor(11, 29), length=41)
    check_gradients(lambda w: (w[:, i], w[:, i, None], w.t()[i % 7, i]), tensor(11, 29), length=41)
    check_gradients(lambda w: F.embedding(i, w, padding_idx=3), tensor(11, 29), length=41)


def test_cross_entropy():
    target = indices(29, size=37)
    check_gradients(lambda x: F.cross_entropy(x, target), tensor(29, 37), length=37)


def test_indices_out_of_range_stay_inside():
    """Unchecked, an engine reads the nearest element, never outside of the buffer."""
    function = torch.compile(lambda w, i: F.embedding(i, w) + 0, backend="vulkan",
                             options={"min_block_size": 1, "check_indices": False})
    w = tensor(5, 3)
    out = function(w, torch.tensor([0, 4, 1000000, -7]))
    assert torch.equal(out, w[[0, 4, 4, 0]])


def test_dynamic_shapes():
    def function(w, i):
        return F.embedding(i, w), w[i], w.index_select(1, i.flatten())
    check(function, tensor(11, 13), indices(3, 5, size=11),
          more=[(tensor(29, 13), indices(2, 7, size=13)), (tensor(5, 13), indices(4, 4, size=5))],
          dynamic=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_no_indices(dynamic):
    """Out of place and in place: there is nothing to write, and no row to take a value from."""
    def function(x, i, rows):
        taken = rows[:, 0]
        return (x.index_put((i,), rows), x.index_put((i,), rows, accumulate=True),
                x.index_add(0, i, rows), x.index_copy(0, i, rows), x.index_fill(0, i, 3.0),
                x[:, 0].scatter(0, i, taken), x[:, 0].scatter_add(0, i, taken),
                x[:, 0].scatter_reduce(0, i, taken, "amax"), x[i] * 2, x[:, 0].gather(0, i) + 1,
                F.embedding(i, x) * 2)

    def writes(x, i, rows):
        x.index_put_((i,), rows).mul_(2)
        return x.index_copy_(0, i, rows).scatter_(0, i[:, None], rows)

    none = torch.empty(0, dtype=torch.int64)
    for f in (function, writes):
        check(f, torch.randn(3, 4), none, torch.empty(0, 4), dynamic=dynamic)


@pytest.mark.parametrize("write", [
    lambda x, i, y: x.index_put((i,), y), lambda x, i, y: x.index_add(0, i, y),
    lambda x, i, y: x.index_copy(0, i, y), lambda x, i, y: x.put(i, y[0, :2])])
def test_values_of_another_type_are_refused_as_by_eager(write):
    """The meta kernels of PyTorch do not ask."""
    x, i, y = tensor(5, 7), torch.tensor([0, 3]), tensor(2, 7, dtype=torch.int32)
    for function in (write, torch.compile(write, backend="vulkan", options={"min_block_size": 1})):
        with pytest.raises(RuntimeError, match="dtype|type"):
            function(x, i, y)


@pytest.mark.parametrize("op", ["fill", "masked_fill"])
def test_a_number_with_dimensions_stays_native(op):
    """PyTorch raises; its meta kernels do so from 2.12 on."""
    f32 = C.DType.float32
    operands = {"self": f32, **({"mask": C.DType.bool} if op == "masked_fill" else {}), "value": f32}
    for shape, reasons in (([3], ["PyTorch wants value to be of rank 0"]), ([], [])):
        graph = C.Graph.named(op)
        given = [(name, "tensor", graph.add_input(name, dtype, shape if name == "value" else [3]))
                 for name, dtype in operands.items()]
        (made,) = graph.add_node(f"aten::{op}.Tensor", "made", given, [(f32, [3])])
        graph.set_outputs([(made, "made", None)])
        plan = C.plan(graph, Settings.from_options(OPTIONS).compiler_json(), C.device_profile(""))
        assert [reason for _, reason, _ in plan.native] == reasons

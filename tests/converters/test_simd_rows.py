"""Rows taken, added and sorted by the kernels of CPU drivers, against eager; sums to the bit."""

import pytest
import torch
import torch.nn.functional as F

from parity import FLOATS, INTS, OPTIONS, check_tactic, compare, on_cpu, only_tactic, tensor

aten = torch.ops.aten
pytestmark = on_cpu
WIDTHS = (32, 41, 700, 1100)


def indices(*shape, size, dtype=torch.int64, seed=3):
    return tensor(*shape, dtype=dtype, low=0, high=size, seed=seed)


def one_after_the_other(x, index, values):
    """The sums in the order of the entries, each rounded."""
    x = x.clone()
    for row, value in zip(index.tolist(), values, strict=True):
        x[row] += value
    return x


# --- taken ---

@pytest.mark.parametrize("dtype", (*FLOATS, *INTS, torch.bool))
def test_selected_rows_of_each_dtype(dtype):
    check_tactic("index_select_simd", lambda w, i, j: (F.embedding(i, w), w.index_select(0, j)),
                 tensor(37, 41, dtype=dtype), indices(3, 5, size=37),
                 indices(7, size=37, dtype=torch.int32))


@pytest.mark.parametrize("width", WIDTHS)
def test_selected_rows(width):
    check_tactic("index_select_simd", lambda x, i: (x.index_select(0, i), x.index_select(1, i) * 2),
                 tensor(5, 7, width), indices(29, size=5))


def test_selected_rows_of_several_dimensions_and_what_follows():
    check_tactic("index_select_simd",
                 lambda x, i, y, b: (F.gelu(x.index_select(1, i) + y), x.index_select(1, i) * b,
                                     x.index_select(1, i[:0]), x.index_select(0, i[::2])),
                 tensor(3, 7, 11, 5), indices(13, size=3), tensor(3, 13, 11, 5, seed=1), tensor(5))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int64))
def test_indexed_rows(dtype):
    check_tactic("index_simd", lambda x, i, j: (x[i], x[:, i], x[-1 - i], x[j], x[:, -1 - j], x[i[:0]]),
                 tensor(5, 7, 41, dtype=dtype), indices(11, size=5), indices(3, 2, size=5))


def test_gathered_rows():
    def function(x, i, j):
        return (x.gather(0, i[:, None, None].expand(-1, 7, 41)),
                x.gather(1, j[:, :, None].expand(-1, -1, 41)),
                x.gather(1, i[None, :, None].expand(5, -1, 41)) + 1)
    check_tactic("gather_simd", function, tensor(5, 7, 41), indices(13, size=5),
                 indices(5, 3, size=7))


@pytest.mark.parametrize("name, function", [
    ("index_select_simd", lambda w, i: (F.embedding(i, w), w.index_select(0, i.flatten()))),
    ("index_simd", lambda w, i: w[i] * 2)])
def test_rows_of_dynamic_sizes(name, function):
    """How many rows there are, and how many are taken."""
    w, i = tensor(11, 67), indices(3, 5, size=11)
    for sizes in ((w, 0), (i, 0), (i, 1)):
        torch._dynamo.mark_dynamic(*sizes)
    with only_tactic(name), torch.no_grad():
        compiled = torch.compile(function, backend="vulkan", fullgraph=True, options=OPTIONS)
        for case in ((w, i), (tensor(29, 67), indices(2, 7, size=29)),
                     (tensor(5, 67), indices(400, 4, size=5))):
            compare(compiled(*case), function(*case))


def test_many_rows_of_two_dimensions_of_workgroups():
    check_tactic("index_select_simd", lambda x, i: x.index_select(1, i), tensor(3, 11, 520),
                 indices(45001, size=11))


def test_rows_out_of_range_stay_inside():
    function = torch.compile(lambda w, i: F.embedding(i, w) + 0, backend="vulkan",
                             options={"min_block_size": 1, "check_indices": False})
    w = tensor(5, 41)
    assert torch.equal(function(w, torch.tensor([0, 4, 1000000, -7])), w[[0, 4, 4, 0]])


@pytest.mark.parametrize("function", [
    lambda x, i: F.embedding(i, x), lambda x, i: x.index_select(0, i), lambda x, i: x[i - 7],
    lambda x, i: x.gather(0, i[:, None].expand(-1, 41)),
    lambda x, i: x.index_add(0, i, x[:2]), lambda x, i: x.index_put((i,), x[:2]),
    lambda x, i: x.scatter_add(0, i[:, None].expand(-1, 41), x[:2])])
def test_rows_out_of_range_are_errors(function):
    compiled = torch.compile(function, backend="vulkan",
                             options={"min_block_size": 1, "require_full_compilation": True})
    x = tensor(5, 41)
    good = torch.tensor([3, 4])
    torch.testing.assert_close(compiled(x, good), function(x, good))
    for bad in (torch.tensor([0, 12]), torch.tensor([-6, 1])):
        with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
            compiled(x, bad)


# --- added ---

@pytest.mark.parametrize("name", ["scatter_rows_simd", "scatter_rows_sorted"])
@pytest.mark.parametrize("rows, entries", [(5, 113), (67, 29), (300, 1000)])
def test_sums_are_in_the_order_of_the_entries(name, rows, entries):
    """Values of many magnitudes, so that another order gives other bits. Some rows have more
    entries than straight-line code adds, some have none."""
    index = indices(entries, size=rows)
    values = tensor(entries, 41, seed=1) * 10.0 ** tensor(entries, 41, seed=2)
    x = tensor(rows, 41)
    with only_tactic(name), torch.no_grad():
        made = torch.compile(
            lambda x, i, v: (x.index_add(0, i, v), x.index_put((i,), v, accumulate=True),
                             x.scatter_add(0, i[:, None].expand(-1, 41), v)),
            backend="vulkan", fullgraph=True, options=OPTIONS)(x, index, values)
    expected = one_after_the_other(x, index, values)
    assert all(torch.equal(sums, expected) for sums in made)
    assert not torch.equal(expected, one_after_the_other(x, index.flip(0), values.flip(0)))


@pytest.mark.parametrize("name", ["scatter_rows_simd", "scatter_rows_sorted"])
@pytest.mark.parametrize("dtype", (*FLOATS, torch.int64, torch.uint8))
def test_added_rows_of_each_dtype(name, dtype):
    def function(x, i, v, j):
        return (x.index_add(0, i, v), x.index_put((-1 - i,), v, accumulate=True) * 2,
                aten.index_put(x, [i], v[0], True), x.index_add(0, i[:0], v[:0]),
                x.index_copy(0, j, v[:3]), x.index_put((j,), v[:3]))
    check_tactic(name, function, tensor(11, 41, dtype=dtype), indices(29, size=11),
                 tensor(29, 41, dtype=dtype, seed=1), torch.tensor([7, 0, 10]), length=29,
                 double=dtype in FLOATS)


@pytest.mark.parametrize("name", ["scatter_rows_simd", "scatter_rows_sorted"])
def test_added_rows_of_later_dimensions(name):
    def function(x, i, v, y):
        return (x.index_add(1, i, v), aten.index_put(x, [None, i], v, True) + y,
                x.scatter_add(1, i[None, :, None].expand(5, -1, 700), v),
                x.transpose(0, 1).index_add(0, i, v.transpose(0, 1)))
    check_tactic(name, function, tensor(5, 7, 700), indices(29, size=7), tensor(5, 29, 700, seed=1),
                 tensor(5, 7, 700, seed=2), length=29)


@pytest.mark.parametrize("name", ["scatter_rows_simd", "scatter_rows_sorted"])
def test_the_last_entry_wins(name):
    i = indices(29, size=11)
    last = {row: k for k, row in enumerate(i.tolist())}
    x, v = tensor(11, 41), tensor(29, 41, seed=1)
    expected = x.clone()
    for row, k in last.items():
        expected[row] = v[k]
    with only_tactic(name), torch.no_grad():
        made = torch.compile(
            lambda x, i, v: (x.index_put((i,), v), x.scatter(0, i[:, None].expand(-1, 41), v)),
            backend="vulkan", fullgraph=True, options=OPTIONS)(x, i, v)
    assert all(torch.equal(y, expected) for y in made)


@pytest.mark.parametrize("name", ["scatter_rows_simd", "scatter_rows_sorted"])
def test_gradients_of_embeddings(name):
    check_tactic(name, lambda g, i: (aten.embedding_dense_backward(g, i, 37, -1, False),
                                     aten.embedding_dense_backward(g, i, 37, 3, False) * 2),
                 tensor(3, 41, 67), indices(3, 41, size=37), length=123)


@pytest.mark.parametrize("name", ["scatter_rows_simd", "scatter_rows_sorted"])
def test_added_rows_of_dynamic_sizes(name):
    """How many rows there are, and how many entries."""
    x, i, v = tensor(11, 41), indices(29, size=11), tensor(29, 41, seed=1)
    for value in (x, i, v):
        torch._dynamo.mark_dynamic(value, 0)
    with only_tactic(name), torch.no_grad():
        compiled = torch.compile(lambda x, i, v: x.index_add(0, i, v), backend="vulkan",
                                 fullgraph=True, options=OPTIONS)
        for case in ((x, i, v), (tensor(5, 41), indices(700, size=5), tensor(700, 41, seed=1)),
                     (tensor(300, 41), indices(3, size=300), tensor(3, 41, seed=1))):
            assert torch.equal(compiled(*case), one_after_the_other(*case))


# --- sorted ---

def distinct(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    return (order - count // 2).to(dtype).reshape(shape)


@pytest.mark.parametrize("length", [1, 31, 32, 33, 255, 257, 1000, 2049, 5000])
def test_sorted_lines(length):
    """Around the sizes of blocks, with spans that are not full."""
    x = (tensor(3, length) * 9).round()
    check_tactic("sort_simd", lambda x: (*x.sort(stable=True), *x.sort(stable=True, descending=True)), x)
    check_tactic("sort_simd", lambda x: (*x.sort(dim=0, stable=True), x.sort(1)[0]), x.t().contiguous())


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS))
def test_sorted_lines_of_each_dtype(dtype):
    x = (tensor(3, 1300) * 9).round().to(dtype)
    check_tactic("sort_simd", lambda x: (*x.sort(stable=True), *x.topk(50)[:1], x.kthvalue(7)[0],
                                         x.mode()[0]), x)


@pytest.mark.parametrize("k", [1, 16, 17, 64, 100, 128, 129, 600])
@pytest.mark.parametrize("lines, length", [(1, 9000), (5, 700)])
def test_best_of_lines(k, lines, length):
    check_tactic("sort_simd", lambda x: (*x.topk(k), *x.topk(k, largest=False)),
                 distinct(lines, length))
    check_tactic("sort_simd", lambda x: x.topk(k, 0), distinct(length, lines))


def test_best_of_equals_are_the_first():
    x = torch.zeros(2, 3000)
    x[:, 1500] = 1
    check_tactic("sort_simd", lambda x: (x.topk(40)[0], x.kthvalue(40)[0]), x)
    with only_tactic("sort_simd"), torch.no_grad():
        at = torch.compile(lambda x: x.topk(40)[1], backend="vulkan", options=OPTIONS)(x)
    assert at.tolist() == [[1500, *range(39)]] * 2


def test_sorted_lines_of_dynamic_sizes():
    check_tactic("sort_simd", lambda x: (*x.sort(stable=True), x.topk(20)[0]), tensor(3, 300),
                 more=[(tensor(5, 2049),), (tensor(2, 9000),), (tensor(7, 21),)], dynamic=True)

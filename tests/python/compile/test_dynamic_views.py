"""Dynamic sizes in views, slices, products and convolutions: whatever is accepted is built."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_vulkan
from torch_vulkan import compilations
from torch_vulkan._native import C

from helpers import assert_same, check, engines, vulkan
from marks import turns

CL = torch.channels_last


def of(*shape, last=False):
    """Makes a tensor of n and m; sizes are numbers or texts."""
    def make(n, m):
        x = torch.randn([eval(str(size), {"n": n, "m": m}) for size in shape])
        return x.to(memory_format=CL) if last else x
    return make


def symbols(n, m):
    return n


NM, EVEN = of("n", "m"), of("n", "2*m")
IMAGE = of("n", 4, "m+6", "m+5", last=True)
conv = nn.Conv2d(4, 6, 3, padding=1).eval().requires_grad_(False)

# name → (function, what makes each argument of the sizes n and m)
CASES = {
    "as_strided at a symbol": (
        lambda x, k: (x + 1).as_strided((2, 2), (2, 1), k) * 2, of("n+20"), symbols),
    "as_strided to its own shape": (
        lambda x: (x.relu() + 1).as_strided(x.shape[::-1], (1, x.shape[1]), 0) + 1, NM),
    "bytes": (lambda x: (x * 2).view(torch.int32) + 1, NM),
    "bytes of halves": (lambda x: (x * 2).view(torch.int16) + 1, NM),
    "bytes of doubled words": (lambda x: x.view(torch.int64) + 1, EVEN),
    "bytes there and back": (
        lambda x: (x.half() + 1).view(torch.int16).add(1).view(torch.float16) * 2, NM),
    "even and odd": (lambda x: x[:, ::2] + x[:, 1::2], EVEN),
    "rotary": (lambda x: torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape) + x, EVEN),
    "halves": (lambda x: (lambda a, b: a * b.sigmoid())(*(x + 1).chunk(2, -1)), EVEN),
    "as many rows as the other": (lambda x, y: x[:y.shape[0]] + y, of("n+2", "m"), NM),
    "the last rows": (lambda x, y: x[x.shape[0] - y.shape[0]:] + y, of("n+2", "m"), NM),
    "changed up to a number": (
        lambda x, k: (lambda v: (v[:k].add_(1), v[k // 2:k].mul_(3), v))(x * 2)[-1],
        of("n+2", "m"), symbols),
    "split by the other": (
        lambda x, y: [s * 2 for s in (x + 1).split([y.shape[0], x.shape[0] - y.shape[0]])],
        of("n+2", "m"), NM),
    "uneven parts": (lambda x: [v + 1 for v in x.tensor_split(3, 1)], of("n", "m+3")),
    "a shape from a quotient": (lambda x: (x + 1).unflatten(1, (-1, 3)).sum(2), of("n", "3*m")),
    "a diagonal": (lambda x: torch.diagonal(x + 1, 1) * 2, of("n", "n+1")),
    "symbols scale products": (
        lambda x, y, z: torch.baddbmm(x, y, z, beta=y.shape[0], alpha=y.shape[2]),
        of("n", 3, 4), of("n", 3, "m"), of("n", "m", 4)),
    "a size that is always 1": (
        lambda x: x.new_zeros(torch.sym_min(x.shape[1], 3) // 2).cos() + x * 2, NM),
    "every other element of two kinds": (
        lambda x, w: F.conv1d(x, w, stride=2, padding=1) + x[..., ::2], of(2, 3, "n+4"),
        of(3, 3, 3)),
    "a channels-last block": (
        lambda x: F.max_pool2d(torch.cat([conv(x), x.relu()], 1), 3, 2, 1), IMAGE),
    "a transposed window of any size": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1) * 2,
        of(2, 3, "n", "m+1"), of(3, 4, "m", "n")),
    "one image": (lambda x: F.max_pool2d(conv(x), 2), of(1, 4, "n+6", "m+5")),
    "upsampled beside": (
        lambda x: torch.cat([F.interpolate(F.max_pool2d(x, 2), size=x.shape[2:]), x], 1), IMAGE),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_accepted_is_built(name):
    function, *makers = CASES[name]
    fast = vulkan(function, dynamic=True, optimization_level=0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch_vulkan")
        for n, m in ((5, 4), (7, 3), (2, 11)):
            args = [make(n, m) for make in makers]
            assert_same(fast(*args), function(*args))
    made = compilations.compilations()
    assert made and all(c.native == [] for c in made)


def test_a_number_that_is_specialised():
    """-1, an argument, is no symbol's other name."""
    def function(x, y, dim, count):
        return torch._chunk_cat([x, y], dim, count)

    fast = vulkan(function, dynamic=True, optimization_level=0)
    x, y = torch.randn(2, 3, 7), torch.randn(2, 3, 7)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch_vulkan")
        assert_same(fast(x, y, -1, 5), function(x, y, -1, 5))
    assert engines(compilations.compilations()) == 1


def test_a_number_that_converters_read():
    """What must be known when an engine is built is known to be refused before."""
    def function(x, lengths, initial):
        return torch.segment_reduce(x, "sum", lengths=lengths, initial=initial) * 2

    fast = vulkan(function, dynamic=True, optimization_level=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch_vulkan")
        for initial in (0, 3, 2.5):
            args = torch.arange(6.0), torch.tensor([2, 1, 3]), initial
            assert_same(fast(*args), function(*args))


def test_as_strided_out_of_its_storage():
    def function(x, k):
        return (x + 1).as_strided((2, 2), (2, 1), k) * 2

    fast = vulkan(function, dynamic=True, optimization_level=0)
    x = torch.randn(9)
    assert_same(fast(x, 5), function(x, 5))
    with pytest.raises(RuntimeError):
        fast(x, 6)


def test_more_workgroups_than_a_dimension_takes():
    """102,400 tiles of rows, where a device may take 65,535."""
    x, w = torch.randn(1638400, 1), torch.randn(1, 1)
    (made,) = check(lambda x, w: x @ w, x, w, calls=1, optimization_level=0)
    assert made.native == []


@turns(3)
def test_more_workgroups_than_a_dimension_takes_in_a_gradient():
    """102,400 tiles of columns, too: what the weights' gradient is."""
    layer, x = nn.Linear(1638400, 1), torch.randn(3, 1638400)
    compilations.clear()
    fast = vulkan(lambda x: layer(x) * 2, optimization_level=0)
    got = torch.autograd.grad(fast(x).sum(), [*layer.parameters()])
    assert_same(got, torch.autograd.grad((layer(x) * 2).sum(), [*layer.parameters()]))
    records = compilations.compilations()
    assert len(records) == 2 and all(record.native == [] for record in records)


PARTS, FEW_PARTS = 70, 20


def test_many_parts_of_one_memory():
    """Each part is a view, of a size that varies: more than a tensor has dimensions."""
    def function(x):
        parts = (x + 1).split(2)
        sums = [part * 2 + i for i, part in enumerate(parts)]
        return torch.cat([*parts, *sums]), parts[0], parts[-1]

    (made,) = check(function, torch.randn(2 * PARTS, 3), dynamic=True, calls=1)
    assert len(made.engines) == 1
    assert {node.op for node in made.native} == {"aten::split.Tensor"}  # the views of one result


def test_many_parts_of_an_argument_are_written():
    def function(x):
        for i, part in enumerate(x.split(2)):
            part.mul_(i)
        return x.sum(0)

    (made,) = check(function, torch.randn(2 * FEW_PARTS, 3), dynamic=True, calls=1)
    assert len(made.engines) == 1 and made.native == []


def test_a_number_divided_by_a_tensor():
    """An operator that wants two tensors and is given a number first."""
    (made,) = check(lambda x: torch.ops.aten.div.Tensor(2, x) + 1, torch.rand(3, 4) + 1)
    assert made.native == []
    (made,) = check(lambda x: torch.ops.aten.div.Tensor(2, x), torch.rand(3).double() + 1)
    assert len(made.native) == 1


def keeps_checks(function, other) -> bool:
    """Whether AOTAutograd's own graph of it raises."""
    captured = torch.compile(function, backend="aot_eager")
    captured(torch.tensor([1.0, 1, 1, 0]))
    try:
        captured(other)
    except RuntimeError:
        return True
    return False


def test_a_check_of_a_size_that_depends_on_data():
    def function(x):
        where = x.nonzero()
        torch._check(where.shape[0] == 3)
        return (where + 1) * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fast = vulkan(function)
        x = torch.tensor([1.0, 1, 1, 0])
        assert torch.equal(fast(x), function(x))  # nonzero's strides are not what it promises
        for other in (torch.tensor([0.0, 1, 0, 0]), torch.ones(4)):
            if keeps_checks(function, other):
                with pytest.raises(RuntimeError, match="assertion"):
                    fast(other)
            else:  # PyTorch 2.11 leaves them out of the graph
                assert torch.equal(fast(other), (other.nonzero() + 1) * 2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_with_gaps(dynamic):
    def function(x):
        y = torch.empty_strided(x.shape, (2 * x.shape[1], 2))
        y.copy_(x.sin())
        return y, y + 1, y[1:]

    check(function, torch.randn(3, 5), dynamic=dynamic)


def test_an_engine_that_is_not_valid_is_not_kept():
    graph = C.Graph.named("outside")
    n = C.Expr.symbol(0)
    graph.add_symbol("n", 2, 5, None)
    x = graph.add_input("x", C.DType.float32, [n])
    (part,) = graph.add_node("aten::as_strided", "part", [
        ("self", "tensor", x), ("size", "attr", [4]), ("stride", "attr", [1]),
        ("storage_offset", "attr", 0)], [(C.DType.float32, [4])])
    (y,) = graph.add_node("aten::relu", "y", [("self", "tensor", part)], [(C.DType.float32, [4])])
    graph.set_outputs([(y, "y", None)])
    before = torch_vulkan.cache.stats()
    profile, settings = C.device_profile(""), torch_vulkan.Settings()

    def build():
        plan = C.plan(graph, settings.compiler_json(), profile, whole=True)
        return C.build(plan, 0, None, settings.cache_json())

    with pytest.raises(ValueError, match="touches 16 bytes"):
        build()
    assert torch_vulkan.cache.stats()["written"] == before["written"]
    graph.add_condition("at_least", n, 4, "as_strided")
    build()

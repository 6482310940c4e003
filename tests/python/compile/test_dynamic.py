"""Dynamic shapes: one engine serves a range."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from torch_vulkan import compilations
from torch_vulkan._torch.guards import canonical

from helpers import assert_same, check, engines, vulkan
from marks import turns


def layer(x, w):
    return torch.relu(x @ w).sum(-1, keepdim=True) + x[:, :1]


def built():
    return engines(compilations.compilations())


def test_one_engine_for_all_batch_sizes():
    w = torch.randn(8, 6)
    fast = vulkan(layer, dynamic=True)
    with torch.no_grad():
        for batch in (5, 3, 64, 7, 5):
            x = torch.randn(batch, 8)
            assert_same(fast(x, w), layer(x, w))
    assert built() == 1


def test_mark_dynamic_with_a_range():
    w = torch.randn(8, 6)
    fast = vulkan(layer)
    with torch.no_grad():
        x = torch.randn(4, 8)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=16)
        assert_same(fast(x, w), layer(x, w))
        for batch in (2, 16, 9):
            x = torch.randn(batch, 8)
            assert_same(fast(x, w), layer(x, w))
    assert built() == 1


def test_range_reaches_the_engine():
    from torch_vulkan._engines.engine import Engine
    from torch_vulkan._fx import engine_call

    calls = []
    fast = vulkan(lambda x: torch.relu(x) + 1)
    x = torch.randn(4, 8)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=16)
    with torch.no_grad(), engine_call.collected(calls):
        fast(x)
    (symbol,) = Engine(calls[0].vke()).info()["symbols"]
    assert (symbol["min"], symbol["opt"], symbol["max"]) == (2, 4, 16)
    with pytest.raises(ValueError, match="17"):
        torch.ops.torch_vulkan.execute([torch.randn(17, 8)], [], calls[0].engine)


def test_static_batches_compile_once_each():
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU())
    fast = vulkan(model, dynamic=False)
    with torch.no_grad():
        for batch in (4, 8, 4, 8):
            x = torch.randn(batch, 8)
            assert_same(fast(x), model(x))
    assert built() == 2


def test_two_symbols_and_arithmetic_on_them():
    def function(x):
        b, t, c = x.shape
        y = torch.relu(x.reshape(b * t, c)).view(b, t, c)
        return torch.cat([y, x], 1) + torch.arange(2 * t)[None, :, None]

    fast = vulkan(function, dynamic=True)
    with torch.no_grad():
        for b, t in ((2, 3), (5, 7), (3, 11)):
            x = torch.randn(b, t, 4)
            assert_same(fast(x), function(x))
    assert built() == 1


def test_size_that_only_a_product_shows():
    def function(x, y):
        y = torch.linalg.matrix_exp(y)  # native: nothing of y's is in an engine before it
        return torch.relu(x.view(y.shape[0], -1) + 1) * 2

    fast = vulkan(function, dynamic=True)
    with torch.no_grad():
        for a, b in ((2, 3), (4, 5)):
            x, y = torch.randn(a * b), torch.eye(a)
            assert_same(fast(x, y), function(x, y))


def test_sizes_of_intermediates():
    def function(x):
        y = torch.relu(torch.cat([x, x]))
        z = torch.linalg.matrix_power(y.t() @ y, 2)
        return (z + y.shape[0]) * y.size(0)

    check(function, torch.randn(3, 4), dynamic=True)


def test_automatic_dynamic():
    fast = vulkan(lambda x: torch.relu(x) * 3)
    with torch.no_grad():
        for n in (4, 5, 6, 7, 9):
            x = torch.randn(n, 3)
            assert_same(fast(x), torch.relu(x) * 3)
    assert built() == 2  # the first is static


def test_transposed_output_with_symbolic_strides():
    check(lambda x: torch.relu(x).transpose(0, 1), torch.randn(5, 7), dynamic=True)


def test_empty_batch():
    fast = vulkan(lambda x: torch.relu(x) * 3, dynamic=True)
    with torch.no_grad():
        for n in (4, 0, 6):
            assert_same(fast(torch.ones(n, 3)), torch.ones(n, 3) * 3)


def test_a_size_that_only_a_number_gives():
    def widen(x, n):
        return torch.relu(x.sum(-1, keepdim=True).expand(-1, n) + 1) * 3

    fast = vulkan(widen, dynamic=True)
    with torch.no_grad():
        for n in (5, 6, 9):
            x = torch.randn(4, 11)
            assert_same(fast(x, n), widen(x, n))
    assert built() == 1
    assert all(c.native == [] for c in compilations.compilations())


NUMBERS = {
    "times": lambda x, s: torch.relu(x) * s,
    "plus": lambda x, s: x + s,
    "power": lambda x, s: x / (s ** 0.5) + s ** 2,
    "arithmetic": lambda x, s: x * (1 / s + s * s - 3) + (s - 1),
    "with a size": lambda x, s: x * (s / x.shape[0]) + (x.shape[1] ** 0.5) * x,
    "compared": lambda x, s: torch.where(x > s, x, x * s),
    "several uses": lambda x, s: torch.softmax(x * s, -1) @ (x.t() * s) + s,
    "returned": lambda x, s: (torch.relu(x) * s, torch.tensor(1.0, dtype=torch.float64) * s, s),
    "float64 beside it": lambda x, s: (x.double() * s, torch.relu(x) * s),
    "float16": lambda x, s: x.half() * s,
    "integers": lambda x, s: (x * 10).long() * s,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_keep_their_precision(name):
    """A float argument is a float64 tensor in the graph; results are those of the number itself."""
    function = NUMBERS[name]
    fast = vulkan(function, dynamic=True)
    with torch.no_grad():
        for n, s in ((5, 0.1), (7, 2.5), (5, 1e-7), (9, 16777217.0)):
            x = torch.randn(n, 4)
            assert_same(fast(x, s), function(x, s))


def compilations_by_pytorch(function, calls):
    """How often PyTorch compiles for such calls, whatever the backend (2.11: for every number)."""
    counter = CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    fast = torch.compile(function, backend=counter, dynamic=True)
    for args in calls:
        fast(*args)
    torch._dynamo.reset()
    return counter.frame_count


def test_numbers_stay_outside_of_engines():
    """They are PyTorch's, as sizes are: one engine for every value, nothing counts as native."""
    function = NUMBERS["arithmetic"]
    calls = [(torch.randn(5, 4), s) for s in (0.1, 2.5, 7.0)]
    with torch.no_grad():
        least = compilations_by_pytorch(function, calls)
        fast = vulkan(function, dynamic=True, require_full_compilation=True)
        for args in calls:
            assert torch.equal(fast(*args), function(*args))
    made = compilations.compilations()
    assert built() == len(made) <= least
    assert all(c.native == [] and c.covered_nodes == c.compute_nodes for c in made)


def test_arithmetic_on_sizes_stays_outside_of_engines():
    """Beside a float argument PyTorch turns quotients of sizes into tensors, integers too."""
    def function(x, s):
        y = torch.relu(x[:, 1:] * s)
        return y * (float(y.shape[1] // 2 + 1) / (2.0 * y.shape[0])) + y.sin()

    fast = vulkan(function, dynamic=True, require_full_compilation=True)
    with torch.no_grad():
        for n, m, s in ((5, 7, 0.1), (6, 9, 2.5), (7, 4, 0.1)):
            x = torch.randn(n, m)
            assert_same(fast(x, s), function(x, s))
    (made,) = compilations.compilations()
    assert built() == 1 and made.native == []


def test_gradients_with_a_number():
    def function(x, s):
        return (torch.tanh(x * s) / s).sum()

    fast = vulkan(function, dynamic=True)
    for s in (0.3, 1.7):
        a = torch.linspace(-2, 2, 35).view(5, 7).requires_grad_()
        b = a.detach().clone().requires_grad_()
        function(a, s).backward()
        fast(b, s).backward()
        torch.testing.assert_close(b.grad, a.grad)


def small_yolo():
    """YOLOv5s of the examples with an eighth of its channels."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))
    from yolov5s import C3, SPPF, Detect, YOLOv5s, conv

    model = YOLOv5s.__new__(YOLOv5s)
    nn.Module.__init__(model)
    model.p3 = nn.Sequential(conv(3, 4, 6, 2, 2), conv(4, 8, 3, 2), C3(8, 8), conv(8, 16, 3, 2),
                             C3(16, 16))
    model.p4 = nn.Sequential(conv(16, 32, 3, 2), C3(32, 32))
    model.p5 = nn.Sequential(conv(32, 64, 3, 2), C3(64, 64), SPPF(64), conv(64, 32))
    model.up = nn.Upsample(scale_factor=2, mode="nearest")
    model.h4, model.h4_out = C3(64, 32, 1, False), conv(32, 16)
    model.h3, model.d3 = C3(32, 16, 1, False), conv(16, 16, 3, 2)
    model.n4, model.d4 = C3(32, 32, 1, False), conv(32, 32, 3, 2)
    model.n5 = C3(64, 64, 1, False)
    model.detect = Detect(4, (16, 32, 64))
    return model.eval()


@pytest.mark.slow  # many kernels for a CPU driver to compile
def test_yolo_with_dynamic_images():
    """Batch, height and width at once: concatenations, upsampling and views of several sizes."""
    torch.manual_seed(0)
    model = small_yolo()
    fast = torch.compile(model, backend="vulkan", dynamic=True)
    with torch.no_grad():
        for n, h, w in ((2, 64, 96), (3, 96, 64), (2, 128, 128), (4, 64, 160)):
            x = torch.rand(n, 3, h, w)
            want, got = model(x), fast(x)
            assert got.shape == want.shape
            assert (got - want).abs().max() <= 1e-4 * want.abs().max(), (n, h, w)
    (made,) = compilations.compilations()
    assert built() == 1 and made.covered_nodes == made.compute_nodes


@turns(2)
@pytest.mark.parametrize("name", ["ResNet-50", "GPT-2"])
def test_networks_with_a_dynamic_batch(name):
    from workloads.networks import NETWORKS

    model = NETWORKS[name].make(True)
    fast = torch.compile(model, backend="vulkan", dynamic=True)
    with torch.no_grad():
        for batch in (2, 3):
            inputs = NETWORKS[name].inputs(batch, True, batch)
            want = model(**inputs)[0]
            error = (fast(**inputs)[0] - want).abs().max() / want.abs().max()
            assert error < 1e-4, (batch, error)
    assert built() == 1
    (made,) = compilations.compilations()
    assert made.covered_nodes == made.compute_nodes


def test_a_size_of_which_guards_leave_one_is_a_number_in_every_expression():
    """Else some lengths are numbers and others not, and an engine is checked at sizes that never
    come: Mamba's scan over a prompt of 13."""
    found = []

    def backend(module, inputs):
        length = next(i for i in inputs if isinstance(i, torch.SymInt))
        found.append([canonical(size) for size in (length, length + 3, 2 * (length // 2))])
        return module

    def f(x):
        n = x.shape[0]
        return x + n if 12 <= n <= 15 and n % 2 == 1 and n // 2 % 2 == 0 else x

    torch.compile(f, backend=backend, dynamic=True)(torch.randn(13))
    assert found == [[13, 16, 12]]


@pytest.mark.parametrize("says_equal", [
    lambda n, m: torch.sym_min(n, m) == n and torch.sym_min(n, m) == m,
    lambda n, m: torch.sym_min(n, m) == n and torch.sym_max(n, m) == n,
    lambda n, m: n >= m and n <= m,
    lambda n, m: n > m - 1 and m >= n,
], ids=["both the smaller one", "smaller and larger", "at least and at most", "more than"])
def test_sizes_that_guards_make_equal_are_one_size(says_equal):
    """PyTorch 2.11 makes such guards of `z.copy_(z.diagonal())`: shapes that must be equal were not
    and the engine could not be built."""
    found = []

    def backend(module, inputs):
        values = [node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")]
        found.append({canonical(size) for x in values if isinstance(x, torch.Tensor)
                      for size in x.shape})
        return module

    def f(x):
        return x + 1 if says_equal(*x.shape) else x

    with torch.fx.experimental._config.patch(use_duck_shape=False):
        torch.compile(f, backend=backend, dynamic=True)(torch.randn(3, 3))
    (sizes,) = found
    assert len(sizes) == 1 and next(iter(sizes)).is_Symbol


def test_guards_between_sizes_that_are_equal_go_with_the_engine():
    """Else an engine for odd sizes is checked with even ones, and refused."""
    def f(x):
        n, m = x.shape
        if not (torch.sym_min(n, m) == n and torch.sym_min(n, m) == m):
            return x
        first, second = (x.diagonal() * 2).tensor_split(2)
        second.scatter_(0, torch.zeros_like(second, dtype=torch.int64), 1)
        return first, second

    with torch.fx.experimental._config.patch(use_duck_shape=False):
        fast = torch.compile(f, backend="vulkan", dynamic=True, options={"min_block_size": 1})
        for n in (4, 5, 7):
            x = torch.randn(n, n)
            assert all(map(torch.equal, fast(x), f(x))), n
    assert built() == 2


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_rows_of_as_many_as_data_tell_are_filled(recwarn):
    """Of which nothing says how they lie in memory."""
    def f(x, places):
        some = x[x > 0]
        return torch.stack([some, some * 2]).index_fill(0, places, 2.0)

    x, places = torch.randn(20), torch.tensor([-1])
    got = torch.compile(f, backend="vulkan", options={"min_block_size": 1})(x, places)
    assert torch.equal(got, f(x, places))
    assert not [w for w in recwarn if "the graph runs natively" in str(w.message)]

"""Any graph compiles and gives eager's result; what has no kernel runs natively."""

import random

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from helpers import assert_same, check, engines, vulkan, warns_before


def work(x):
    """A few nodes that an engine takes."""
    return torch.relu(x * 2 + 1) - 0.5


def test_operator_nobody_supports():
    x = torch.randn(6, 6)
    records = check(lambda t: work(torch.linalg.matrix_exp(0.1 * work(t))), x)
    assert engines(records) == 2
    assert any("linalg" in n.op and "no converter" in n.reason for n in records[0].native)


def test_custom_operator():
    @torch.library.custom_op("tv_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    records = check(lambda t: work(twice(work(t))), torch.randn(5, 7))
    assert engines(records) == 2


@pytest.mark.parametrize("said", [{"dtype": torch.float16}, {"size": (1, 7)}, {"size": (5,)}])
def test_a_meta_kernel_that_is_wrong(said):
    """An operator that PyTorch runs gives other results than was planned for: so does the rest."""
    name = "wrong_" + "_".join(map(str, said["size"])) if "size" in said else "wrong_dtype"

    @torch.library.custom_op(f"tv_test::{name}", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    operator.register_fake(
        lambda x: x.new_empty(said.get("size", x.shape), dtype=said.get("dtype")))
    x = torch.randn(5, 7)
    with torch.no_grad(), pytest.warns(UserWarning, match="engine_1 runs natively"):
        found = vulkan(lambda t: (operator(work(t)) * 3).sum())(x)
    assert_same(found, (work(x) * 6).sum())


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_dtypes_without_kernels(dtype):
    records = check(lambda t: t * 2 + t.abs(), torch.randn(5, 7, dtype=dtype))
    assert engines(records) == 0


def test_float64_inside_a_float32_graph():
    records = check(lambda t: work((work(t).double() * 3).float()), torch.randn(5, 7))
    assert engines(records) >= 1


def test_random_numbers():
    def noisy(x):
        x = torch.nn.functional.dropout(work(x), 0.5, training=True)
        return work(x) + torch.rand(5, 7), torch.randn(3), torch.bernoulli(torch.full((4,), 0.5))

    def reference(x):
        return torch.compile(noisy, backend="aot_eager")(x)

    x = torch.randn(5, 7)
    fast = vulkan(noisy)
    with torch.no_grad():
        for _ in range(2):
            torch.manual_seed(3)
            want = noisy(x)
            torch.manual_seed(3)
            assert_same(fast(x), want)
    torch.manual_seed(3)
    with torch.no_grad():
        want = reference(x)
    torch.manual_seed(3)
    with torch.no_grad():
        assert_same(fast(x), want)


def test_random_numbers_keep_their_order():
    def noisy(x):
        a = torch.rand(5, 7) + torch.relu(x)   # waits for an engine
        b = torch.rand(5, 7)                   # waits for nothing
        return work(a), work(x * 3), b

    check(noisy, torch.randn(5, 7))


def test_shapes_that_depend_on_data():
    def count(x):
        y = work(x)
        return work(y[y > 0]), torch.nonzero(y), y.max().item()

    check(count, torch.randn(6, 9))


def test_branch_on_data():
    def branch(x):
        y = work(x)
        return work(y) if y.sum() > 0 else y - 100

    check(branch, torch.full((5,), 3.0))
    check(branch, torch.full((5,), -3.0))


def test_mutation_of_inputs():
    def step(x, y):
        x.add_(y)
        y[:2] = 7
        return work(x)

    check(step, torch.randn(4, 5), torch.randn(4, 5))


def test_inputs_and_their_views_returned():
    def views(x):
        return x, x.view(-1), x[1:], x.t(), x.expand(3, 4, 5), work(x)

    x = torch.randn(4, 5)
    check(views, x)
    fast = vulkan(views)
    with torch.no_grad():
        got = fast(x)
    assert got[0] is x and all(g.data_ptr() == w.data_ptr() for g, w in
                               zip(got[:5], views(x)[:5], strict=True))


def test_only_views():
    check(lambda x: (x.t(), x[1:]), torch.randn(4, 5))


def test_returns_what_is_no_tensor():
    check(lambda x: (work(x), None, 3, "text", {"a": work(x + 1)}), torch.randn(4, 5))


def test_no_inputs():
    check(lambda: work(torch.arange(12.0).view(3, 4)) + torch.ones(3, 4))


def test_no_outputs():
    check(lambda x: None, torch.randn(3))


def test_no_compute():
    check(lambda x: x, torch.randn(3))


def test_empty_tensors():
    def mixed(x, y):
        return torch.cat([work(x), work(y)]), work(x).sum(), work(y).mean(1)

    check(mixed, torch.randn(0, 5), torch.randn(4, 5))


def test_buffers_that_change():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(5))

        def forward(self, x):
            self.steps.add_(1)
            return work(x) + self.steps

    model = Counter()
    fast = vulkan(model)
    with torch.no_grad():
        for step in range(1, 4):
            x = torch.randn(3, 5)
            assert_same(fast(x), work(x) + step)
    assert model.steps.tolist() == [3.0] * 5


def test_constants_in_the_graph():
    table = torch.arange(5.0)

    def lookup(x):
        return work(x + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])) * table

    check(lookup, torch.randn(3, 5))


def test_several_tensors_of_one_operator():
    check(lambda x: [work(p) for p in x.split([2, 3, 1])], torch.randn(6, 5))
    check(lambda x: x.max(1), torch.randn(6, 5))
    check(lambda x: torch.topk(work(x), 2), torch.randn(6, 5))


def test_graph_break():
    def broken(x):
        y = work(x)
        torch._dynamo.graph_break()
        return work(y)

    records = check(broken, torch.randn(3, 4))
    assert engines(records) == 2


def test_tensor_subclass():
    class Tagged(torch.Tensor):
        pass

    x = torch.randn(3, 4).as_subclass(Tagged)
    with torch.no_grad():
        got = vulkan(work)(x)
    torch.testing.assert_close(got.as_subclass(torch.Tensor), work(x).as_subclass(torch.Tensor))


def test_sparse_input():
    x = torch.eye(4).to_sparse()
    y = torch.randn(4, 4)
    got = vulkan(lambda a, b: work(torch.sparse.mm(a, b)))(x, y)
    torch.testing.assert_close(got, work(y))


def test_out_of_memory_runs_natively(monkeypatch):
    from torch_vulkan._fx import engine_call

    calls = []
    x = torch.randn(4, 5)
    fast = vulkan(work)
    with engine_call.collected(calls), torch.no_grad():
        fast(x)

    def exhausted(*_):
        raise torch.OutOfMemoryError("[vulkan] out of memory")

    monkeypatch.setattr(engine_call, "_execute", exhausted)
    with torch.no_grad(), pytest.warns(UserWarning, match="engine_0 runs natively.*out of memory"):
        assert_same(fast(x), work(x))
    with torch.no_grad():
        assert_same(fast(x), work(x))


def test_failed_build(monkeypatch):
    from torch_vulkan._fx import engine_call

    def refuses(*_):
        raise RuntimeError("the kernel does not compile")

    monkeypatch.setattr(engine_call, "compile_graph", refuses)
    x = torch.randn(4, 5)
    with torch.no_grad():
        with pytest.warns(UserWarning, match="runs natively.*does not compile"):
            assert_same(vulkan(work)(x), work(x))
        (record,) = tv.compilations.compilations()
        assert record.covered_nodes == 0 and "does not compile" in record.native[-1].reason
        with pytest.raises(RuntimeError, match="does not compile"):
            vulkan(work, pass_through_build_failures=True)(x)
        with pytest.raises(ValueError, match="require_full_.*engine_0 was not built.*not compile"):
            vulkan(work, require_full_compilation=True)(x)


def test_engines_between_random_numbers_keep_their_order():
    def function(x):
        a = torch.relu(x) + 1
        b = torch.sigmoid(a + torch.rand_like(a))
        r = torch.randn(3)
        c = torch.dropout(b, 0.5, True)
        # The sum joins the engine that dropout waits for, which moves it behind the last draw.
        return c * 2, torch.rand(2) + r.sum()

    x = torch.randn(4, 5)
    fast = torch.compile(function, backend="vulkan", options={"min_block_size": 1})
    with torch.no_grad():
        torch.manual_seed(3)
        want = function(x)
        torch.manual_seed(3)
        torch.testing.assert_close(fast(x), want)


def test_an_argument_of_another_dtype_than_captured():
    """Before torch 2.15 Dynamo says float32 of what a random.Random draws, and gives float64."""
    def draw(x, source):
        return x + source.random()

    x, source = torch.ones(3), random.Random(1)
    with warns_before((2, 15), "runs natively: .*got Double, want float32"):
        got = torch.compile(draw, backend="vulkan", options={"min_block_size": 1})(x, source)
    torch.testing.assert_close(got, draw(x, random.Random(1)))


LAYER = torch.nn.Linear(4, 4)


@torch.compiler.nested_compile_region
def region(x):
    return LAYER(x).relu() + torch.tensor([1.0, 2, 3, 4])


def test_regions_that_are_compiled_once_are_in_engines():
    def several(x):
        return region(x) + region(x * 2)

    x = torch.randn(3, 4)
    fast = vulkan(several)
    with torch.no_grad():
        assert_same(fast(x), several(x))
    (record,) = compilations.compilations()
    assert len(record.engines) == 1 and record.covered_nodes == record.compute_nodes
    torch.testing.assert_close(*(torch.autograd.grad(f(x).square().sum(), LAYER.weight)
                                 for f in (fast, several)))


def test_control_flow_is_named():
    def chosen(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() * 3, (x,)) + 1

    x = torch.randn(3, 4)
    with torch.no_grad():
        assert_same(vulkan(chosen)(x), chosen(x))
    reasons = [n.reason for c in compilations.compilations() for n in c.native]
    assert "the higher-order operator cond, whose bodies PyTorch runs" in reasons

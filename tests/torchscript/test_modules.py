"""tv.compile of TorchScript modules: parts as engines, the rest native, the same results."""

import warnings

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations


def compiled(module, *args, script=False, size=1, **settings):
    """(TorchScript module, what tv.compile makes of it); engines of `size` nodes or more."""
    module = module.eval()
    with torch.no_grad():
        source = torch.jit.script(module) if script else torch.jit.trace(module, args)
    compilations.clear()
    made = tv.compile(source, inputs=[*args], min_block_size=size, optimization_level=0, **settings)
    return source, made


def engines(module) -> int:
    """How many calls of engines a module has."""
    return len(module.graph.findAllNodes("torch_vulkan::execute", recurse=True))


def check(module, *args, count=1, others=(), **options):
    """Compares a compiled module with its source, for `args` and for `others`."""
    source, made = compiled(module, *args, **options)
    assert engines(made) == count, made.graph
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for given in (args, *others):
            torch.testing.assert_close(made(*given), source(*given))
    return source, made


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(7, 13), nn.GELU(), nn.Dropout(), nn.Linear(13, 5))

    def forward(self, x):
        return torch.softmax(self.layers(x), -1)


@pytest.mark.parametrize("script", [False, True])
def test_straight_line(script):
    check(Mlp(), torch.randn(3, 7), script=script)


def test_record():
    compiled(Mlp(), torch.randn(3, 7))
    (record,) = compilations.compilations()
    assert record.kind == "torchscript" and record.coverage == 1 and len(record.engines) == 1
    assert record.engines[0].compute_nodes == record.compute_nodes == 4
    assert record.engines[0].dispatches > 0


def test_other_sizes_and_dtypes_run_natively():
    source, made = compiled(Mlp(), torch.randn(3, 7))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.randn(11, 7)
        assert torch.equal(made(x), source(x))
        made, source = made.double(), source.double()
        assert torch.equal(made(x.double()), source(x.double()))


class Pieces(nn.Module):
    """Sizes read from tensors, a list, a tuple, and an operator that stays native."""

    def forward(self, x):
        rows, columns = x.shape
        a, b = torch.relu(x).chunk(2, 1)
        both = torch.cat([a, b + 1, torch.linalg.inv(a[:, :3])], 1)
        return both.view(rows * 11, -1).transpose(0, 1), (a * columns).reshape(-1)


@pytest.mark.parametrize("script", [False, True])
def test_native_part(script):
    check(Pieces(), torch.rand(3, 8) + 4 * torch.eye(3, 8), count=2, script=script)
    (record,) = compilations.compilations()
    assert [n.op for n in record.native] == ["aten::linalg_inv"]


class Loop(nn.Module):
    """Engines in a loop's body, in branches, before and after."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(6, 6)

    def forward(self, x, steps: int):
        x = torch.relu(x) + 1
        for i in range(steps):
            x = torch.tanh(self.linear(x)) + i
        if bool(x.sum() > 0):
            x = torch.exp(-x) * 2
        else:
            x = torch.sin(x) * 3
        return x / 2 - 1


def test_control_flow():
    x = torch.randn(4, 6)
    source, made = compiled(Loop(), x, 3, script=True)
    assert engines(made) == 5  # also of the condition; the branch that was not taken is native
    loop, = made.graph.findAllNodes("prim::Loop", recurse=True)
    assert "torch_vulkan::execute" in str(loop)
    (record,) = compilations.compilations()
    assert "the example inputs did not reach it" in {n.reason for n in record.native}
    with torch.no_grad():
        for given in ((x, 3), (-9 * x, 3), (x, 0), (x, 7), (x - 8, 1)):
            torch.testing.assert_close(made(*given), source(*given))


class Stages(nn.Module):
    """Engines that read sizes, apart by random numbers."""

    def forward(self, x):
        for i in range(12):
            rows = x.reshape(x.size(0) * 2, x.size(1) // 2).reshape(x.size(0), x.size(1))
            x = torch.relu(rows * (i + 2) - x.size(1)) + torch.sigmoid(x)
            x = x + torch.rand_like(x)
        return x


def test_every_stage_is_an_engine():
    """Nodes that come to lie where others were, which went with an engine, are not those."""
    x = torch.randn(4, 8)
    source = torch.jit.trace(Stages(), x, check_trace=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "torch_vulkan: an engine was not built")
        assert engines(tv.compile(source, inputs=[x], min_block_size=1, optimization_level=0)) == 13


class Growing(nn.Module):
    def forward(self, x):
        found = []
        for i in range(3):
            x = torch.cat([x, torch.relu(x[i:] - 1)])
            found.append(x.sum())
        return torch.stack(found), x * 2 + 1


def test_sizes_that_change_in_a_loop():
    check(Growing(), torch.randn(4, 5), script=True, count=1, others=[(torch.randn(9, 2),)])


class Numbers(nn.Module):
    """An argument, and a loop's counter, decide sizes and values."""

    def forward(self, x, n: int, scale: float):
        y = torch.relu(x[:n]) * scale
        for i in range(2):
            y = y + x[i].exp()
        return y.view(n, -1) + n


def test_engines_are_for_the_numbers_they_were_made_for():
    x = torch.randn(5, 4)
    check(Numbers(), x, 3, 0.5, script=True, count=3,
          others=[(x, 2, 0.5), (x, 3, 2.0), (torch.randn(6, 4), 3, 0.5)])


class Writes(nn.Module):
    """In-place operators, on a view too, and a buffer that is written."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x):
        y = x.relu().add_(1)
        part = y[1:3]
        part.mul_(2)
        self.count += y.mean(0)
        z = y * self.count
        return torch.sigmoid(z) + part.sum(), y


@pytest.mark.parametrize("script", [False, True])
def test_writes(script):
    module = Writes().eval()
    x = torch.randn(5, 4)
    source = torch.jit.script(module) if script else torch.jit.trace(module, x, check_trace=False)
    made = tv.compile(source, inputs=[x], min_block_size=1, optimization_level=0)
    assert engines(made)
    made.count.zero_()
    fresh = Writes().eval()
    for _ in range(3):
        torch.testing.assert_close(made(x), fresh(x))
    torch.testing.assert_close(made.count, fresh.count)


def test_same_tensor_twice_in_the_example():
    class Sum(nn.Module):
        def forward(self, a, b):
            return a.exp() - b * 2

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    check(Sum(), x, x, script=True, others=[(x, y)])


class Returns(nn.Module):
    """Views and arguments that are handed back."""

    def forward(self, x):
        y = torch.relu(x)
        return x, y, y.t(), y[0].expand(3, 4), (x * 2, x.view(-1))


@pytest.mark.parametrize("script", [False, True])
def test_results_are_as_in_eager_mode(script):
    x = torch.randn(3, 4)
    source, made = check(Returns(), x, script=script)
    got, want = made(x), source(x)
    assert got[0] is x or got[0].data_ptr() == x.data_ptr()
    assert got[4][1].data_ptr() == x.data_ptr()
    assert [t.stride() for t in got[:4]] == [t.stride() for t in want[:4]]


def test_settings():
    x = torch.randn(3, 7)
    _, made = compiled(Mlp(), x, torch_executed_ops=["aten::gelu"])
    assert engines(made) == 2 and "aten::gelu" in str(made.graph)
    (record,) = compilations.compilations()
    assert ("aten::gelu", "torch_executed_ops lists aten::gelu") in {
        (n.op, n.reason) for n in record.native}
    with pytest.raises(ValueError, match="aten::gelu"):
        compiled(Mlp(), x, torch_executed_ops=["aten::gelu"], require_full_compilation=True)
    source, made = compiled(Mlp(), x, enabled_precisions={torch.float16})
    error = (made(x) - source(x)).abs().max()
    assert 0 < error < 1e-2
    assert engines(compiled(Mlp(), x, size=50)[1]) == 0
    _, made = compiled(Mlp(), x, enable_autocast=True, autocast_excluded_nodes={""})
    assert torch.equal(made(x), compiled(Mlp(), x)[1](x)), "all of it is excluded"


def test_truncated():
    class Integers(nn.Module):
        def forward(self, x):
            return (x * 3 + 1, x.double() / 3)

    x = torch.arange(6)
    source, made = compiled(Integers(), x, truncate_long_and_double=True)
    for got, want in zip(made(x), source(x), strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_bad_inputs():
    source = torch.jit.script(Loop().eval())
    x = torch.randn(4, 6)
    with pytest.raises(ValueError, match="inputs are missing"):
        tv.compile(source)
    with pytest.raises(ValueError, match="'steps' of forward is missing"):
        tv.compile(source, inputs=[x])
    with pytest.raises(ValueError, match="forward takes"):
        tv.compile(source, inputs={"x": x, "steps": 2, "more": 1})
    with pytest.raises(ValueError, match="a TorchScript module is compiled for the sizes"):
        tv.compile(source, inputs=[x, 2], profiles=[tv.Profile(x=((1, 6), (1, 6), (1, 6)))])
    made = tv.compile(source, inputs={"x": tv.Input(shape=(4, 6)), "steps": 2}, min_block_size=1,
                      optimization_level=0)
    torch.testing.assert_close(made(x, 2), source(x, 2))

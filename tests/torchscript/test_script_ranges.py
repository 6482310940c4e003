"""TorchScript modules compiled for ranges of sizes: one program, eager's results at every size."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_arguments import flat
from test_modules import Mlp
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from marks import turns
from workloads.patience import patience


def ranged(*triples, dtype=torch.float32):
    """An Input from (min, opt, max) or a size for each dimension."""
    dims = [t if isinstance(t, tuple) else (t, t, t) for t in triples]
    low, opt, high = zip(*dims, strict=True)
    return tv.Input(min_shape=low, opt_shape=opt, max_shape=high, dtype=dtype)


def compiled(module, inputs, example=None, **settings):
    """(source, program): scripted, or traced with `example`."""
    with torch.no_grad():
        source = (torch.jit.script(module.eval()) if example is None else
                  torch.jit.trace(module.eval(), example, check_trace=False))
    compilations.clear()
    made = tv.compile(source, inputs=inputs, **{"min_block_size": 1, "optimization_level": 0}
                      | settings)
    return source, made


def engines_of(made, *given):
    """What it gives, and the engines that a call ran."""
    with torch.no_grad(), tv.profile(made) as profile, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = made(*given)
    return result, {layer["engine"] for layer in profile.layers}


def check(source, made, *given, engines=None):
    """Compares; `engines`: how many run, None: all of them."""
    got, ran = engines_of(made, *given)
    with torch.no_grad():
        want = source(*given)
    for g, w in zip(flat([got]), flat([want]), strict=True):
        if isinstance(w, torch.Tensor):
            assert g.shape == w.shape
            torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-4)
        else:
            assert g == w
    (record,) = compilations.compilations()
    assert len(ran) == (len(record.engines) if engines is None else engines), ran


@pytest.mark.parametrize("script", [False, True])
def test_batch(script):
    source, made = compiled(Mlp(), [ranged((1, 4, 9), 7)], None if script else torch.randn(2, 7))
    (record,) = compilations.compilations()
    assert record.coverage == 1 and len(record.engines) == 1
    for batch in (1, 2, 3, 4, 9):
        check(source, made, torch.randn(batch, 7))
    for batch in (10, 0, 40):
        check(source, made, torch.randn(batch, 7), engines=0)
    (engine,) = tv.engines(made)
    assert engine.info()["symbols"] == [{"name": "s0", "min": 1, "opt": 4, "max": 9}]


class HandedOn(nn.Module):
    """A dropout that evaluation leaves out is read beside what it is given; the last sum reads what
    an engine made, and what PyTorch made of that."""

    def forward(self, x):
        kept = F.dropout(x, 0.5, self.training)
        y = torch.relu(x) * 2 + kept
        return torch.sin(y) + y * kept


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("sizes", [(1, 4, 9), (4, 4, 4)])
def test_engines_read_what_is_handed_on(script, sizes):
    source, made = compiled(HandedOn(), [ranged(sizes, 7)], None if script else torch.randn(4, 7),
                            torch_executed_ops=("aten::sin",))
    (record,) = compilations.compilations()
    assert [(n.op, n.reason) for n in record.native] == [
        ("aten::sin", "torch_executed_ops lists aten::sin")]
    assert len(record.engines) == 2
    for batch in {*sizes}:
        check(source, made, torch.randn(batch, 7))


class Picture(nn.Module):
    """Strided windows, views of what they leave, and resizing back."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm, self.up = nn.BatchNorm2d(4), nn.ConvTranspose2d(4, 2, 2, stride=2)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x)))
        z = F.max_pool2d(y, 2)
        n, c, h, w = z.shape
        rows = z.view(n, c, h * w).transpose(1, 2)
        scores = torch.softmax(rows @ rows.transpose(1, 2), -1)
        return scores.sum(-1), self.up(y), F.interpolate(z, scale_factor=2.0), rows.reshape(-1, c)


@pytest.mark.parametrize("script", [False, True])
def test_pictures(script):
    inputs = [ranged((1, 2, 4), 3, (8, 16, 40), (8, 24, 33))]
    source, made = compiled(Picture(), inputs, None if script else torch.randn(2, 3, 16, 16))
    for shape in ((1, 3, 8, 8), (2, 3, 16, 24), (4, 3, 40, 33), (3, 3, 17, 9), (2, 3, 9, 32)):
        check(source, made, torch.randn(shape))
    check(source, made, torch.randn(5, 3, 16, 16), engines=0)
    check(source, made, torch.randn(2, 3, 41, 16), engines=0)


class Text(nn.Module):
    """Positions, a mask of the same sizes, heads."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(30, 12), nn.Embedding(64, 12)
        self.query, self.out = nn.Linear(12, 36), nn.Linear(12, 12)
        self.norm = nn.LayerNorm(12)

    def forward(self, ids, mask):
        batch, length = ids.shape
        x = self.words(ids) + self.places(torch.arange(length, device=ids.device))
        q, k, v = self.query(x).view(batch, length, 3, 4, 3).permute(2, 0, 3, 1, 4).unbind(0)
        bias = (1 - mask[:, None, None, :]) * -1e4
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        y = self.norm(x + self.out(y.transpose(1, 2).reshape(batch, length, 12)))
        return y, y[:, 0], y.mean(1)


def text(batch, length):
    ids = torch.randint(0, 30, (batch, length))
    mask = torch.ones(batch, length)
    mask[:, length // 2 + 1:] = 0
    return ids, mask


@pytest.mark.parametrize("script", [False, True])
def test_two_dimensions_that_two_inputs_share(script):
    inputs = [ranged((1, 2, 6), (1, 9, 50), dtype=torch.int64), ranged((1, 2, 6), (1, 9, 50))]
    source, made = compiled(Text(), inputs, None if script else text(2, 5))
    for sizes in ((2, 9), (6, 50), (3, 2), (5, 31), (1, 7), (4, 1), (1, 1)):
        check(source, made, *text(*sizes))
    check(source, made, *text(2, 51), engines=0)


def test_other_sizes_than_those_of_the_other_input():
    class Sum(nn.Module):
        def forward(self, a, b):
            return torch.relu(a) * 2 + b, (a * 3).sum(0)

    source, made = compiled(Sum(), [ranged((1, 4, 8), 5), ranged((1, 4, 8), 5)])
    check(source, made, torch.randn(7, 5), torch.randn(7, 5))
    check(source, made, torch.randn(7, 5), torch.randn(1, 5), engines=0)
    check(source, made, torch.randn(1, 5), torch.randn(6, 5), engines=0)


class Rules(nn.Module):
    """What operators do changes with the sizes; between the examples, too."""

    def __init__(self, n: int):
        super().__init__()
        self.n = n

    def forward(self, x):
        y = torch.relu(x) * 2
        rows = min(x.shape[0], self.n)
        z = y[:rows] + 1
        k = x.shape[0] % 7
        rare = x.shape[0] + 2 * int(x.shape[0] == self.n)  # which no example shows
        return (z, y.sum(0) * k, y[k:].exp(), y / x.shape[0], y.view(-1, 1) * x.shape[0],
                (y * rare).exp2(), y[:rare].cos())


@turns(4, each=("script",))
@pytest.mark.parametrize("n", [3, 11, 19, 100])
@pytest.mark.parametrize("script", [False, True])
def test_numbers_that_follow_no_rule(script, n):
    source, made = compiled(Rules(n), [ranged((2, 10, 24), 3)],
                            None if script else torch.randn(8, 3))
    for rows in range(2, 26):
        x = torch.randn(rows, 3)
        got, _ = engines_of(made, x)
        for g, w in zip(got, source(x), strict=True):
            torch.testing.assert_close(g, w)


class Outside(nn.Module):
    """Sizes from before a part that stays native, and from a loop around."""

    def forward(self, x, steps: int):
        rows, columns = x.shape
        y = torch.linalg.matrix_exp(x[:4, :4] * 0.1)
        for _ in range(steps):
            y = torch.tanh(y * 2) + 1
            big = torch.ones(rows, columns, dtype=x.dtype) * 3
            big = big + y.sum()
            y = y + big.mean() * 0.1
        return y, (torch.arange(rows) * 2 + columns)[None], x.t().contiguous().view(-1)


def test_sizes_from_outside():
    source, made = compiled(Outside(), [ranged((4, 6, 20), (4, 9, 17)), 2])
    for shape in ((4, 4), (6, 9), (20, 17), (11, 13)):
        check(source, made, torch.randn(shape), 2)
    torch.testing.assert_close(made(torch.ones(21, 9), 2), source(torch.ones(21, 9), 2))


def test_a_list_and_a_scale():
    class Pieces(nn.Module):
        def forward(self, x):
            a, b = torch.relu(x).chunk(2, 1)
            parts = torch.split(b + 1, 2, 0)
            return torch.cat([a, b * 2, x], 1), parts[0] * 2, torch.stack([a, b]).mean(0)

    source, made = compiled(Pieces(), [ranged((4, 4, 4), (2, 6, 20))])
    for columns in (2, 4, 6, 20):
        check(source, made, torch.randn(4, columns))
    for module in (source, made):
        with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
            module(torch.randn(4, 7))


def test_strides():
    class Image(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            return torch.relu(self.conv(x)).permute(0, 2, 3, 1), x.transpose(1, 2) * 2

    source, made = compiled(Image(), [ranged((1, 2, 4), 3, (8, 9, 20), 8)])
    for shape in ((1, 3, 8, 8), (4, 3, 20, 8), (3, 3, 11, 8)):
        x = torch.randn(shape)
        check(source, made, x)
        with torch.no_grad():
            pairs = [*zip(made(x), source(x), strict=True)]
        for got, want in pairs:
            assert all(a == b for a, b, size in zip(got.stride(), want.stride(), want.shape,
                                                    strict=True) if size > 1)
    check(source, made, torch.randn(2, 8, 9, 3).permute(0, 3, 2, 1))  # another order


READER = """
import sys, warnings, torch
torch.classes.load_library(sys.argv[1])
program = torch.jit.load(sys.argv[2])
torch.manual_seed(1)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for shape in ((1, 3, 8, 8), (3, 3, 17, 9)):
        print(program(torch.randn(shape))[1].sum().item())
    assert not [w for w in told if "torch_vulkan" in str(w.message)], [str(w.message) for w in told]
    print(program(torch.randn(3, 3, 50, 9))[1].sum().item())
assert "torch_vulkan" not in sys.modules
(warning,) = [str(w.message) for w in told if "torch_vulkan" in str(w.message)]
assert "dimension 2: got 50, want 8 to 40" in warning, warning
"""


def test_files(tmp_path):
    source, made = compiled(Picture(), [ranged((1, 2, 4), 3, (8, 16, 40), (8, 24, 33))])
    tv.save(made, tmp_path / "net.pt")
    loaded = tv.load(tmp_path / "net.pt")
    check(source, loaded, torch.randn(3, 3, 21, 13))
    check(source, loaded, torch.randn(3, 3, 50, 13), engines=0)
    library = Path(tv.cmake_prefix_path) / "lib" / "libtorch_vulkan.so"
    done = subprocess.run([sys.executable, "-c", READER, library, tmp_path / "net.pt"],
                          capture_output=True, text=True, timeout=patience(300))
    assert done.returncode == 0, done.stderr
    torch.manual_seed(1)
    with torch.no_grad():
        want = [source(torch.randn(shape))[1].sum().item()
                for shape in ((1, 3, 8, 8), (3, 3, 17, 9), (3, 3, 50, 9))]
    assert [float(v) for v in done.stdout.split()] == pytest.approx(want, rel=1e-4)


def test_weights_of_a_program_for_ranges():
    source, made = compiled(Mlp(), [ranged((1, 4, 9), 7)])
    assert made.state_dict().keys() == source.state_dict().keys()
    check(source, made, torch.randn(3, 7))
    with torch.no_grad():
        for tensor in source.parameters():
            tensor.mul_(1.5)
    check(source, made, torch.randn(3, 7))
    tv.refit(made, {name: torch.randn_like(value) for name, value in source.state_dict().items()})
    check(source, made, torch.randn(5, 7))


def test_dry_run():
    source = torch.jit.script(Mlp().eval())
    report = tv.dry_run(source, [ranged((1, 4, 9), 7)], min_block_size=1)
    assert report.coverage == 1 and report.data["flops"] == 2 * 4 * (7 * 13 + 13 * 5)


def test_sizes_that_do_not_go_together():
    class Sum(nn.Module):
        def forward(self, a, b):
            return a + b

    with pytest.raises(tv.UnsupportedError, match="does not run at all sizes"):
        compiled(Sum(), [ranged((2, 4, 8)), ranged((3, 4, 9))])


class Rows(nn.Module):
    def forward(self, x):
        y = torch.relu(x.reshape(-1, 4)) + 1
        return torch.tanh(y) * 2


def test_sizes_that_a_reshape_does_not_divide():
    """A range whose sizes do not all run is refused; sizes outside of one that was compiled are
    PyTorch's, and so is their error."""
    with pytest.raises(tv.UnsupportedError, match=r"'\[-1, 4\]' is invalid"):
        compiled(Rows(), [ranged((1, 2, 8), 6)])
    source, made = compiled(Rows(), [ranged(2, 6)])
    check(source, made, torch.randn(2, 6))
    check(source, made, torch.randn(4, 6), engines=0)
    with pytest.raises(RuntimeError, match=r"'\[-1, 4\]' is invalid for input of size 18"):
        made(torch.randn(3, 6))


def test_a_size_is_asked_for_again_where_that_failed():
    """Kernels without data fail beside another thread's torch.export, for one."""
    errors = []

    def shapes(x):
        if errors and x.is_meta:
            raise KeyError(errors.pop())
        return torch.empty_like(x)

    double = tv.custom_op("tests::fails_at_times", "(Tensor x) -> Tensor y", """void main() {
        uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
        if (i < y_numel) y_store(i, x_load(i) * 2.0);
    }""", None, shapes)

    class Double(nn.Module):
        def forward(self, x):
            return torch.relu(double(x) + 1)

    source, made = compiled(Double(), [ranged((1, 4, 9), 7)], torch.randn(2, 7))
    errors.append("once")
    for engines in (0, 1, 1):
        check(source, made, torch.randn(5, 7), engines=engines)
    errors += ["always"] * 5
    for _ in range(5):
        check(source, made, torch.randn(6, 7), engines=0)
    assert len(errors) == 2  # it was asked for thrice
    errors.clear()

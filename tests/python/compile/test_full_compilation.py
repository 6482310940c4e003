"""require_full_compilation, and graphs that PyTorch's own tracing does not take."""

import warnings

import pytest
import torch
from torch import nn

from torch_vulkan import compilations
from torch_vulkan._base import settings
from torch_vulkan._fx import importer

from helpers import assert_same, check, in_threads, vulkan


def with_print(x):
    y = torch.relu(x * 2)
    print("", end="")  # the break
    return y + 1


def at_the_start(x):
    print("", end="")
    return torch.relu(x * 2) + 1


def at_the_end(x):
    y = torch.relu(x * 2) + 1
    print("", end="")
    return y


def in_a_try(x):
    try:
        print("", end="")
    finally:
        y = inner(x)
    return y


def inner(x):
    return torch.relu(x * 2) + 1


def inside_of_a_call(x):
    return with_print(x) * 3


def of_a_value(x):
    return x * 2 if x.sum() > 1e9 else torch.relu(x)


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            torch._dynamo.graph_break()
            x = torch.relu(layer(x))
        return x


@pytest.mark.parametrize("function", [with_print, at_the_start, at_the_end, in_a_try,
                                      inside_of_a_call, of_a_value, Loop()])
def test_graph_break(function):
    x = torch.randn(3, 4)
    with torch.no_grad():
        assert_same(vulkan(function)(x), function(x))
        torch._dynamo.reset()  # which forgets who is told of compilations, but for this backend
        with pytest.raises(ValueError, match=r"(?s)graph break.*test_full_compilation.py\W.*\d+"):
            vulkan(function, require_full_compilation=True)(x)


@pytest.mark.parametrize("function", [with_print, at_the_start, at_the_end, in_a_try,
                                      inside_of_a_call, of_a_value])
def test_graph_break_that_the_backend_finds(function, monkeypatch):
    """As where Dynamo tells nobody of compilations."""
    torch._dynamo.reset()
    monkeypatch.setattr(torch._dynamo.callback_handler, "start_callbacks", [])
    with pytest.raises(ValueError, match=r"(?s)graph break.*test_full_compilation.py:\d+: "):
        vulkan(function, require_full_compilation=True)(torch.randn(3, 4))


def test_breaks_are_allowed_where_nobody_forbids_them():
    x = torch.randn(3, 4)
    with pytest.raises(ValueError, match="graph break"):
        vulkan(with_print, require_full_compilation=True)(x)
    assert_same(vulkan(with_print)(x), with_print(x))
    assert_same(torch.compile(of_a_value, backend="eager")(x), of_a_value(x))


def test_nothing_is_said_without_a_break():
    """Wrappers that Dynamo does not trace, several compiled functions, and one traced twice."""
    whole = vulkan(inner, require_full_compilation=True, dynamic=False)
    decorated = torch.compile(torch.no_grad()(inner), backend="vulkan",
                              options={"require_full_compilation": True})

    def caller(x):
        with warnings.catch_warnings():
            return whole(x) + decorated(x)

    model = vulkan(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), require_full_compilation=True)
    for n in (3, 5):
        x = torch.randn(n, 4)
        assert_same(caller(x), 2 * inner(x))
        model(x)


def test_threads_keep_their_own_rules():
    """One thread compiles with the setting while others have breaks; nothing is left behind."""
    torch._dynamo.reset()
    x = torch.randn(3, 4)

    def work(i):
        def strict(x):
            return torch.relu(x * (i + 2))

        def loose(x):
            y = torch.relu(x * (i + 2))
            torch._dynamo.graph_break()
            return y + i

        # PyTorch notes that it traces for the process: a call beside another thread's trace is
        # taken for one of that trace, and refused or run as it is.
        with torch._dynamo.config.patch(error_on_nested_fx_trace=False):
            for _ in range(2):
                assert_same(vulkan(strict, require_full_compilation=True)(x), strict(x))
                assert_same(vulkan(loose)(x), loose(x))

    in_threads(work, 3)
    work(9)


def test_dryrun_reports_before_it_refuses(capfd):
    with pytest.raises(ValueError, match="graph break"):
        vulkan(with_print, require_full_compilation=True, dryrun=True)(torch.randn(3))
    assert "torch_vulkan dry run" in capfd.readouterr().out


@torch.library.custom_op("test_full::unlike", mutates_args=())
def unlike(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@unlike.register_fake
def _(x):
    return torch.empty_like(x)


def not_differentiable_twice(ctx, grad):
    raise RuntimeError("upstream cannot trace this")


unlike.register_autograd(not_differentiable_twice)


def test_what_aot_autograd_does_not_trace_runs_as_it_is():
    """The gradient of `unlike` cannot be traced, nor computed; the result can."""
    x = torch.randn(3, requires_grad=True)
    compilations.clear()
    with pytest.warns(UserWarning, match="AOTAutograd failed.*upstream cannot.*runs natively"):
        got = vulkan(lambda t: unlike(t * 2) + 1)(x)
    torch.testing.assert_close(got, x * 2 + 1)
    (record,) = compilations.compilations()
    assert record.coverage == 0 and record.compute_nodes == 3
    assert all("upstream cannot trace this" in node.reason for node in record.native)
    torch._dynamo.reset()
    with pytest.raises(ValueError, match="upstream cannot trace this"):
        vulkan(lambda t: unlike(t * 2) + 1, require_full_compilation=True)(x)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="upstream cannot trace this"):
        vulkan(lambda t: unlike(t * 2) + 1, pass_through_build_failures=True)(x)


class ImageAttention(nn.Module):
    """The attention in the middle of Stable Diffusion's image decoder (AutoencoderKL of diffusers):
    group norm, one head over all pixels, a residual connection."""

    def __init__(self, channels=16):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels, eps=1e-6)
        self.q, self.k, self.v, self.out = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x):
        batch, channels, height, width = x.shape
        pixels = x.view(batch, channels, height * width).transpose(1, 2)
        pixels = self.norm(pixels.transpose(1, 2)).transpose(1, 2)
        q, k, v = (layer(pixels).view(batch, -1, 1, channels).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=False)
        y = self.out(y.transpose(1, 2).reshape(batch, -1, channels))
        return y.transpose(-1, -2).reshape(x.shape) + x


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("options, engines", [
    ({}, [1]), ({"torch_executed_ops": {"aten::_scaled_dot_product_flash_attention_for_cpu",
                                        "aten::scaled_dot_product_attention"}}, [1, 2]),
    ({"min_block_size": 1000}, [0])], ids=["engines", "attention_is_native", "all_is_native"])
def test_the_attention_of_an_image_decoder(options, engines, grad):
    torch.manual_seed(0)
    (made, *_) = check(ImageAttention().eval(), torch.randn(2, 16, 5, 4), grad=grad, **options)
    assert len(made.engines) in engines
    native = {node.op for node in made.native}
    assert any("attention" in op for op in native) == (engines != [1]), native


def test_an_error_of_our_own_leaves_the_graph_to_pytorch(monkeypatch):
    def broken(self):
        raise IndexError("a bug in here")

    monkeypatch.setattr(importer.Importer, "run", broken)
    x = torch.randn(3)
    with pytest.warns(UserWarning, match="IndexError: a bug in here"), torch.no_grad():
        assert_same(vulkan(inner)(x), inner(x))


@pytest.mark.parametrize("given, near", [
    ("aten::rleu", "'aten::relu'"), ("rleu", "'aten::relu'"),
    ("aten::add.Tensro", "'aten::add.Tensor'"), ("aten::convolutoin", "'aten::convolution'"),
])
@pytest.mark.parametrize("setting", ["torch_executed_ops", "autocast_excluded_ops"])
def test_unknown_operator(setting, given, near):
    options = {setting: {given}}
    if setting == "autocast_excluded_ops":
        options["enable_autocast"] = True
    with pytest.raises(ValueError, match=f"is no operator of this PyTorch.*did you mean {near}"):
        settings.Settings.from_options(options)


def test_an_operator_with_no_near_name():
    with pytest.raises(ValueError, match="no operator of this PyTorch.*loaded$"):
        settings.Settings.from_options({"torch_executed_ops": ["mine::qqqqqqqqqq"]})


def test_operators_of_a_file_need_not_be_loaded():
    kept = {"torch_executed_ops": ["elsewhere::op"]}
    assert settings.Settings.from_json(kept).torch_executed_ops == ("elsewhere::op",)

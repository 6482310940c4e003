"""ModelOpt's quantize_op, which quantises and dequantises, in exported and compiled modules. The
operator is defined here as ModelOpt defines it, which need not be installed."""

import contextlib

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from parity import OPTIONS

_SCHEMA = ("(Tensor input, Tensor amax, int num_bits, int exponent_bits, bool unsigned, "
           "bool narrow_range) -> Tensor")


def reference(x, amax, num_bits, exponent_bits, unsigned, narrow_range):
    """With x · (most / amax), as ModelOpt's kernels have it; 0 where amax is as good as 0."""
    amax, wide = amax.float(), x.float()
    nothing = amax <= 2**-24
    if exponent_bits:
        scale = 448 / amax.masked_fill(nothing, 1)
        y = (wide * scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() / scale
    else:
        most = 2.0 ** (num_bits - (not unsigned)) - 1
        least = 0.0 if unsigned else -most if narrow_range else -most - 1
        scale = (most / amax).masked_fill(nothing, 0)
        y = (wide * scale).round().clamp(least, most) / scale.masked_fill(nothing, 1)
    return y.to(x.dtype)


@pytest.fixture(scope="module", autouse=True)
def library():
    with contextlib.suppress(RuntimeError):  # ModelOpt itself is there
        made = torch.library.Library("tensorrt", "FRAGMENT")
        made.define("quantize_op" + _SCHEMA)
        made.impl("quantize_op", reference, "CPU")
        made.impl("quantize_op", lambda x, *args: torch.empty_like(x), "Meta")
        yield made
        return
    yield None


class Net(nn.Module):
    """A convolution and a layer, as export_torch_mode leaves them."""

    def __init__(self, bits=8, exponent=0):
        super().__init__()
        torch.manual_seed(0)
        self.form = bits, exponent, False, False
        self.conv, self.head = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(8, 16)
        self.register_buffer("conv_in", torch.tensor(3.0))
        self.register_buffer("head_in", torch.tensor(1.5))
        self.register_buffer("conv_amax", self.of_channels(self.conv.weight))
        self.register_buffer("head_amax", self.of_channels(self.head.weight))

    @staticmethod
    def of_channels(weight):
        return weight.detach().abs().amax(tuple(range(1, weight.dim())), keepdim=True)

    def forward(self, x):
        rounded = torch.ops.tensorrt.quantize_op
        weight = rounded(self.conv.weight, self.conv_amax, *self.form)
        x = nn.functional.conv2d(rounded(x, self.conv_in, *self.form), weight, self.conv.bias,
                                 padding=1)
        x = rounded(torch.relu(x).mean((2, 3)), self.head_in, *self.form)
        return nn.functional.linear(x, rounded(self.head.weight, self.head_amax, *self.form),
                                    self.head.bias)


def outcomes(model, x):
    report = tv.dry_run(model, [x], **OPTIONS)
    return [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]


@torch.no_grad()
def test_integers_are_multiplied():
    model, x = Net().eval(), torch.randn(2, 4, 9, 9)
    exported = torch.export.export(model, (x,))
    assert any("quantize_op" in str(node.target) for node in exported.graph.nodes)
    program = tv.compile(exported, **OPTIONS)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.compile(model, backend="vulkan", options=OPTIONS)(x),
                               model(x), rtol=1e-4, atol=1e-4)
    assert sum("multiplied as integers" in outcome for outcome in outcomes(model, x)) == 4


@torch.no_grad()
def test_float8_weights_are_read_packed():
    model, x = Net(8, 4).eval(), torch.randn(2, 4, 9, 9)
    program = tv.compile(torch.export.export(model, (x,)), **OPTIONS)
    torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-3)
    assert any("read packed by 1 product" in outcome for outcome in outcomes(model, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("form", [(8, 0, False, False), (8, 0, False, True), (8, 0, True, False),
                                  (4, 0, False, True), (3, 0, True, True), (8, 4, False, False)])
@torch.no_grad()
def test_alone(form, dtype):
    """Beyond the range too, with halves between steps, and blocks without a range."""
    function = lambda x, amax: torch.ops.tensorrt.quantize_op(x, amax, *form)  # noqa: E731
    x = torch.linspace(-4, 4, 7 * 33).view(7, 33).to(dtype)
    of_rows = torch.arange(7.0).view(7, 1) / 2
    for amax in (torch.tensor(2.0), torch.tensor([3.0]), of_rows, of_rows.to(dtype)):
        torch._dynamo.reset()
        got = torch.compile(function, backend="vulkan", fullgraph=True, options=OPTIONS)(x, amax)
        torch.testing.assert_close(got, reference(x, amax, *form), rtol=1e-6 if
                                   dtype == torch.float32 else 1e-3, atol=1e-6)


def test_what_is_not_known_stays_native():
    function = lambda x: torch.ops.tensorrt.quantize_op(  # noqa: E731
        x, torch.tensor(2.0), 16, 8, False, False)
    report = tv.dry_run(function, [torch.randn(3)], min_block_size=1)
    assert "numbers of 16 bits, 8 of them the exponent's" in str(report)


def test_a_range_that_is_no_number():
    model = Net().eval()
    model.head_amax[3] = float("nan")
    with pytest.raises(ValueError, match=r"scale 'head_amax': 1 of 16 are not finite"):
        tv.compile(model, inputs=[torch.randn(2, 4, 9, 9)])

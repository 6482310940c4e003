"""PT2E's dynamic quantisation: scales and zero points that are chosen at run time, to the bit."""

import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the operators)
from torch.nn import functional

import torch_vulkan as tv

quantized = torch.ops.quantized_decomposed
STRICT = {"min_block_size": 1, "require_full_compilation": True,
          "pass_through_build_failures": True, "optimization_level": 0}


class Dynamic(nn.Module):
    """A linear layer as convert_pt2e leaves it: weights by channel, activations by tensor."""

    def __init__(self, symmetric, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.symmetric, self.dtype = symmetric, dtype
        self.register_buffer("w", torch.randint(-127, 128, (24, 40), dtype=torch.int8))
        self.register_buffer("w_scale", torch.rand(24) / 100 + 0.001)
        self.register_buffer("w_zero", torch.zeros(24, dtype=torch.int64))

    def quantised(self, x):
        low, high = (-128, 127) if self.dtype == torch.int8 else (0, 255)
        choose = quantized.choose_qparams_symmetric if self.symmetric else quantized.choose_qparams
        scale, zero = choose.tensor(x, low, high, 2.44140625e-4, self.dtype)
        return scale, zero, quantized.quantize_per_tensor.tensor(x, scale, zero, low, high,
                                                                 self.dtype)

    def forward(self, x):
        low, high = (-128, 127) if self.dtype == torch.int8 else (0, 255)
        scale, zero, q = self.quantised(x)
        x = quantized.dequantize_per_tensor.tensor(q, scale, zero, low, high, self.dtype)
        w = quantized.dequantize_per_channel(self.w, self.w_scale, self.w_zero, 0, -127, 127,
                                             torch.int8)
        return functional.linear(x, w), q


KINDS = [(False, torch.uint8), (False, torch.int8), (True, torch.int8), (True, torch.uint8)]


@pytest.mark.parametrize("symmetric, dtype", KINDS)
@torch.no_grad()
def test_equals_eager(symmetric, dtype):
    torch._dynamo.reset()
    model = Dynamic(symmetric, dtype).eval()
    compiled = torch.compile(model, backend="vulkan", options=STRICT)
    for x in (torch.randn(7, 40), torch.rand(7, 40) + 3, -torch.rand(7, 40), torch.zeros(7, 40),
              torch.randn(7, 40) * 1e-5, torch.arange(280.0).view(7, 40) / 2):
        (want, want_q), (got, got_q) = model(x), compiled(x)
        assert torch.equal(got_q, want_q)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5 * want.abs().max().item())


def test_products_are_of_integers():
    report = tv.dry_run(Dynamic(False, torch.uint8).eval(), [torch.randn(7, 40)], **STRICT)
    outcomes = [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]
    assert len(outcomes) == 2 and all("multiplied as integers by 1 product" in f for f in outcomes)


class Returned(Dynamic):
    def forward(self, x):
        return (*super().forward(x), *self.quantised(x)[:2])


@torch.no_grad()
def test_what_the_caller_is_given_stays_float64():
    torch._dynamo.reset()
    model, x = Returned(False, torch.uint8).eval(), torch.randn(7, 40)
    options = {**STRICT, "require_full_compilation": False}
    want, got = model(x), torch.compile(model, backend="vulkan", options=options)(x)
    assert [t.dtype for t in got] == [t.dtype for t in want]
    assert all(torch.equal(g, w) for g, w in zip(got[1:], want[1:], strict=True))


@torch.no_grad()
def test_ahead_of_time(tmp_path):
    model, x = Dynamic(False, torch.uint8).eval(), torch.randn(7, 40)
    program = tv.compile(model, [x], **STRICT)
    tv.save(program, tmp_path / "net.pt2")
    for given in (x, torch.randn(7, 40) * 9):
        assert torch.equal(tv.load(tmp_path / "net.pt2")(given)[1], model(given)[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_16_bits(dtype):
    torch._dynamo.reset()
    model = Dynamic(False, torch.uint8).eval()
    x = torch.randn(7, 40).to(dtype)
    want = model.quantised(x)[2]
    got = torch.compile(model.quantised, backend="vulkan", options={
        **STRICT, "require_full_compilation": False})(x)[2]
    assert (got.int() - want.int()).abs().max() == 0


class Tokens(Dynamic):
    """A scale, and a zero point, for each row."""

    def __init__(self, symmetric):
        super().__init__(symmetric, torch.int8)

    def quantised(self, x):
        choose = quantized.choose_qparams_per_token if self.symmetric else (
            quantized.choose_qparams_per_token_asymmetric)
        scale, zero = choose(x, torch.int8)
        return scale, zero, quantized.quantize_per_token(x, scale, zero, -128, 127, torch.int8)

    def forward(self, x):
        scale, zero, q = self.quantised(x)
        x = quantized.dequantize_per_token(q, scale, zero, -128, 127, torch.int8, torch.float32)
        w = quantized.dequantize_per_channel(self.w, self.w_scale, self.w_zero, 0, -127, 127,
                                             torch.int8)
        return functional.linear(x, w), q


def largest_difference(got, want):
    """Of integers, and the share of those that differ."""
    apart = (got.int() - want.int()).abs()
    return apart.max().item(), (apart > 0).float().mean().item()


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("shape", [(7, 40), (2, 3, 40)])
@torch.no_grad()
def test_tokens(symmetric, shape):
    """To the bit where scales are float32 in eager mode, else but for what lies next to a half."""
    torch._dynamo.reset()
    model = Tokens(symmetric).eval()
    compiled = torch.compile(model, backend="vulkan", options=STRICT)
    x = torch.randn(shape)
    x.view(-1, 40)[1] = 0
    for given in (x, x.abs() + 3, -x.abs(), x * 1e-6, x * 1e4):
        (want, want_q), (got, got_q) = model(given), compiled(given)
        most, share = largest_difference(got_q, want_q)
        assert most <= (0 if symmetric else 1) and share < 0.005
        step = want.abs().max().item() / 100
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5 if symmetric else step)


@pytest.mark.parametrize("symmetric", [True, False])
def test_products_of_tokens_are_of_integers(symmetric):
    report = tv.dry_run(Tokens(symmetric).eval(), [torch.randn(7, 40)], **STRICT)
    outcomes = [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]
    assert len(outcomes) == 2 and all("multiplied as integers by 1 product" in f for f in outcomes)


@torch.no_grad()
def test_a_dynamic_number_of_tokens():
    torch._dynamo.reset()
    model = Tokens(False).eval()
    compiled = torch.compile(model, backend="vulkan", dynamic=True, options=STRICT)
    for rows in (5, 2, 17):
        x = torch.randn(rows, 40)
        assert largest_difference(compiled(x)[1], model(x)[1])[1] < 0.005


class InTensors(Dynamic):
    """Scale, zero point and the ends of the grid in tensors."""

    def __init__(self):
        super().__init__(False, torch.int8)
        for name, number in (("scale", 0.03), ("zero", 3), ("low", -100), ("high", 90)):
            self.register_buffer(name, torch.tensor(number))

    def forward(self, x):
        grid = self.scale, self.zero, self.low, self.high, torch.int8
        q = quantized.quantize_per_tensor.tensor2(x, *grid)
        x = quantized.dequantize_per_tensor.tensor2(q, *grid)
        w = quantized.dequantize_per_channel(self.w, self.w_scale, self.w_zero, 0, -127, 127,
                                             torch.int8)
        return functional.linear(x, w), q


@torch.no_grad()
def test_the_ends_of_the_grid_in_tensors():
    torch._dynamo.reset()
    model, x = InTensors().eval(), torch.randn(7, 40) * 3
    (want, want_q), (got, got_q) = model(x), torch.compile(model, backend="vulkan",
                                                           options=STRICT)(x)
    assert torch.equal(got_q, want_q) and want_q.min() == -100 and want_q.max() == 90
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)
    report = tv.dry_run(model, [x], **STRICT)
    outcomes = [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]
    assert len(outcomes) == 2 and all("multiplied as integers by 1 product" in f for f in outcomes)

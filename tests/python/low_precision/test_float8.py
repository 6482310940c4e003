"""Weights and activations of torch's float8 dtypes, as torchao's tensors leave them in a graph:
read packed, or multiplied by _scaled_mm."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import torch_vulkan as tv

from marks import turns

OPTIONS = {"min_block_size": 1, "require_full_compilation": True,
           "pass_through_build_failures": True}
LARGEST = 448.0


def compiled(model):
    torch._dynamo.reset()
    return torch.compile(model, backend="vulkan", options=OPTIONS)


def outcomes(model, x):
    report = tv.dry_run(model, [x], min_block_size=1)
    assert report.coverage == 1, str(report)
    return [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]


def quantised(weight, format=torch.float8_e4m3fn):
    scale = weight.abs().amax(1, keepdim=True) / torch.finfo(format).max
    return (weight / scale).to(format), scale


class WeightOnly(nn.Module):
    """As Float8WeightOnlyConfig."""

    def __init__(self, format, dtype, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        q, scale = quantised(torch.randn(96, 128), format)
        self.register_buffer("q", q)
        self.register_buffer("scale", scale)
        self.bias = nn.Parameter(torch.randn(96).to(dtype))

    def forward(self, x):
        weight = (self.q.t().to(torch.float32) * self.scale.t()).to(x.dtype)
        return x @ weight + self.bias


@turns(3, each=("format",))
@pytest.mark.parametrize("format", [torch.float8_e4m3fn, torch.float8_e5m2,
                                    torch.float8_e4m3fnuz], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@torch.no_grad()
def test_weights_are_read_packed(format, dtype):
    model, x = WeightOnly(format, dtype), torch.randn(3, 128).to(dtype)
    torch.testing.assert_close(compiled(model)(x), model(x), rtol=0.016,
                               atol=0.06 if dtype == torch.bfloat16 else 1e-4)
    assert outcomes(model, x) == ["read packed by 1 product"]


@torch.no_grad()
def test_ahead_of_time_and_refit(tmp_path):
    model, other = (WeightOnly(torch.float8_e4m3fn, torch.float32, seed) for seed in (0, 1))
    x = torch.randn(3, 128)
    program = tv.compile(model, inputs=[x], **OPTIONS)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
    (engine,) = tv.engines(program)
    held = sum(t.nbytes for t in (model.q, model.scale, model.bias))
    assert engine.info()["memory"]["weights_held"] <= 1.05 * held
    tv.save(program, tmp_path / "net.pt2")
    loaded = tv.load(tmp_path / "net.pt2")
    tv.refit(loaded, other.state_dict())
    torch.testing.assert_close(loaded(x), other(x), rtol=1e-4, atol=1e-4)


class Dynamic(nn.Module):
    """As Float8DynamicActivationFloat8WeightConfig, per tensor or per row."""

    def __init__(self, rows):
        super().__init__()
        torch.manual_seed(0)
        self.rows = rows
        weight = torch.randn(96, 128)
        q, scale = quantised(weight if rows else weight.reshape(1, -1))
        self.register_buffer("q", q.reshape(96, 128))
        self.register_buffer("scale", scale if rows else scale.reshape(()))
        self.bias = nn.Parameter(torch.randn(96).to(torch.bfloat16))

    def forward(self, x):
        most = x.abs().amax(-1, keepdim=True) if self.rows else x.abs().amax()
        scale = (most.float() / LARGEST).clamp(min=1e-12)
        q = (x.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
        of_weight = self.scale.t().contiguous() if self.rows else self.scale
        return torch._scaled_mm(q, self.q.t(), scale, of_weight, bias=self.bias,
                                out_dtype=torch.bfloat16)


@pytest.mark.parametrize("rows", [False, True])
@torch.no_grad()
def test_dynamic_activations(rows):
    model, x = Dynamic(rows), (torch.randn(16, 128) * 3).to(torch.bfloat16)
    try:
        want = model(x)
    except RuntimeError as error:
        assert rows and "per-tensor scaling" in str(error)
        pytest.skip("PyTorch 2.11 has no scales by row on CPUs")
    torch.testing.assert_close(compiled(model)(x), want, rtol=0.008, atol=0.01)
    assert outcomes(model, x)


def unpacked(packed):
    return torch.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)


def numbers_of(codes):
    """e2m1 by its bits, as torchao decodes it."""
    sign = codes & 8
    size = codes ^ sign
    denormal = (size > 0) & ((size >> 1) == 0)
    bits = ((size >> 1) - 1 + 127).to(torch.int32) << 23 | (size & 1).to(torch.int32) << 22
    bits = torch.where(size == 0, torch.zeros_like(bits), bits)
    bits = torch.where(denormal, torch.full_like(bits, 0x3f000000), bits)
    return (bits | sign.to(torch.int32) << 28).view(torch.float32)


def powers_of(codes):
    exponent = codes.to(torch.int16) - 127
    return torch.where(codes != 255, torch.pow(torch.full(codes.shape, 2.0), exponent), torch.nan)


class Microscaled(nn.Module):
    """Weights in blocks of 32 with scales that are powers of two: MX, spelled out."""

    def __init__(self, bits, wrong=False):
        super().__init__()
        torch.manual_seed(0)
        self.bits, self.wrong = bits, wrong
        codes = torch.randint(0, 256, (64, 128 * bits // 8), dtype=torch.uint8)
        if bits == 8:
            codes = (torch.randn(64, 128) * 30).to(torch.float8_e4m3fn)
        self.register_buffer("q", codes)
        self.register_buffer("scale", torch.randint(118, 130, (64, 4), dtype=torch.uint8).view(
            torch.float8_e8m0fnu))

    def forward(self, x):
        if self.bits == 4:
            numbers = numbers_of(unpacked(self.q)).to(x.dtype)
        else:
            numbers = self.q.to(x.dtype)
        scale = powers_of(self.scale.view(torch.uint8))
        if self.wrong:
            numbers = numbers + 1
        weight = numbers.reshape(-1, 32) * scale.reshape(-1, 1).to(x.dtype)
        return functional.linear(x, weight.reshape(64, 128))


@turns(3, each=("bits",))
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@torch.no_grad()
def test_microscaling_that_is_spelled_out(bits, dtype):
    model, x = Microscaled(bits), torch.randn(3, 128).to(dtype)
    want = model(x)
    torch.testing.assert_close(compiled(model)(x), want, rtol=0.016 if dtype == torch.bfloat16
                               else 1e-4, atol=want.abs().max().item() * 4e-3)
    assert outcomes(model, x) == ["read packed by 1 product"]
    program = tv.compile(model, inputs=[x], **OPTIONS)
    (engine,) = tv.engines(program)
    held = model.q.nbytes + model.scale.nbytes
    assert engine.info()["memory"]["weights_held"] <= 1.05 * held + 64


@pytest.mark.parametrize("bits", [4, 8])
@torch.no_grad()
def test_what_is_no_such_weight_is_computed(bits):
    model, x = Microscaled(bits, wrong=True), torch.randn(3, 128)
    torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-2)
    assert "read packed by 1 product" not in outcomes(model, x)

"""Products of integers that share an input - query, key and value - are one."""

import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the operators)
from torch.nn import functional

import torch_vulkan as tv

quantized = torch.ops.quantized_decomposed
OPTIONS = {"min_block_size": 1, "require_full_compilation": True, "optimization_level": 0,
           "pass_through_build_failures": True}
WIDTHS = (48, 16, 32)  # of query, key and value
STEPS = 64


class Projections(nn.Module):
    """As convert_pt2e leaves them: one input by a scale and a zero point, weights by channel."""

    def __init__(self, only=None, quantises=False, bias=True):
        super().__init__()
        torch.manual_seed(0)
        self.only, self.quantises = only, quantises
        for i, width in enumerate(WIDTHS):
            self.register_buffer(f"w{i}", torch.randint(-127, 128, (width, STEPS),
                                                        dtype=torch.int8))
            self.register_buffer(f"s{i}", torch.rand(width) / 100 + 0.001)
            self.register_buffer(f"z{i}", torch.zeros(width, dtype=torch.int64))
            setattr(self, f"b{i}", nn.Parameter(torch.randn(width)) if bias else None)

    def forward(self, x):
        x = quantized.quantize_per_tensor(x, 0.03, 120, 0, 255, torch.uint8)
        made = []
        for i in range(3) if self.only is None else [self.only]:
            w = quantized.dequantize_per_channel(
                getattr(self, f"w{i}"), getattr(self, f"s{i}"), getattr(self, f"z{i}"), 0, -127,
                127, torch.int8)
            d = quantized.dequantize_per_tensor(x, 0.03, 120, 0, 255, torch.uint8)
            y = functional.linear(d, w, getattr(self, f"b{i}"))
            if self.quantises:
                y = quantized.quantize_per_tensor(y, 0.1 + i, 0, -128, 127, torch.int8)
            made.append(y)
        return tuple(made)


def products(program):
    return len({layer["name"].split("/")[0] for engine in tv.engines(program)
                for layer in engine.info()["layers"]
                if layer["tactic"].startswith("matmul_integer")})


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_projections_are_one_product(bias):
    x = torch.randn(2, 5, STEPS)
    merged = tv.compile(Projections(bias=bias), inputs=[x], **OPTIONS)
    assert products(merged) == 1
    for i, (got, want) in enumerate(zip(merged(x), Projections(bias=bias)(x), strict=True)):
        alone = tv.compile(Projections(only=i, bias=bias), inputs=[x], **OPTIONS)
        assert torch.equal(got, alone(x)[0]), i
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_results_that_are_quantised_stay_apart():
    x = torch.randn(2, 5, STEPS)
    program = tv.compile(Projections(quantises=True), inputs=[x], **OPTIONS)
    assert products(program) == 3
    for i, got in enumerate(program(x)):
        alone = tv.compile(Projections(only=i, quantises=True), inputs=[x], **OPTIONS)
        assert torch.equal(got, alone(x)[0]), i


@torch.no_grad()
def test_refit():
    x, other = torch.randn(2, 5, STEPS), Projections()
    program = tv.compile(Projections(), inputs=[x], **OPTIONS)
    other.w1.copy_(torch.randint(-127, 128, other.w1.shape, dtype=torch.int8))
    tv.refit(program, other.state_dict())
    for got, want in zip(program(x), tv.compile(other, inputs=[x], **OPTIONS)(x), strict=True):
        assert torch.equal(got, want)


class Attention(nn.Module):
    """Whose result is quantised for the next product."""

    def __init__(self):
        super().__init__()
        self.projections = Projections()

    def forward(self, x):
        query, key, value = (y[..., :16] for y in self.projections(x))
        y = functional.scaled_dot_product_attention(query, key, value)
        y = quantized.quantize_per_tensor(y, 0.1, 0, -128, 127, torch.int8)
        return quantized.dequantize_per_tensor(y, 0.1, 0, -128, 127, torch.int8)


@torch.no_grad()
def test_an_attention():
    model, x = Attention(), torch.randn(2, 5, STEPS)
    program = tv.compile(model, inputs=[x], **OPTIONS)
    assert products(program) == 1
    assert (program(x) - model(x)).abs().max() <= 0.1001, "a value on a half is a step off"

"""What the dry run says of quantised tensors: what reads them as integers, and why other operators
do not."""

import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the operators)
from torch.nn import functional

import torch_vulkan as tv

quantized = torch.ops.quantized_decomposed
STEPS = 64


def outcomes(module, x):
    report = tv.dry_run(module.eval(), [x], min_block_size=1)
    return [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]


def pair(x):
    q = quantized.quantize_per_tensor(x, 0.03, 0, -128, 127, torch.int8)
    return quantized.dequantize_per_tensor(q, 0.03, 0, -128, 127, torch.int8)


class Weight(nn.Module):
    def __init__(self, shape, groups=None):
        super().__init__()
        torch.manual_seed(0)
        self.groups = groups
        self.register_buffer("w", torch.randint(-127, 128, shape, dtype=torch.int8))
        scales = shape[:1] if groups is None else (shape[0], groups)
        self.register_buffer("s", torch.rand(scales) / 100 + 0.001)
        self.register_buffer("z", torch.zeros(scales, dtype=torch.int64))

    def floats(self):
        if self.groups is None:
            return quantized.dequantize_per_channel(self.w, self.s, self.z, 0, -127, 127,
                                                    torch.int8)
        return quantized.dequantize_per_channel_group(
            self.w, self.s, self.z, -127, 127, torch.int8, self.w.shape[1] // self.groups,
            torch.float32)


class Product(Weight):
    def forward(self, x):
        return functional.linear(pair(x), self.floats())


class Convolution(Weight):
    def forward(self, x):
        return functional.conv2d(x, self.floats())


def test_products_of_integers():
    assert outcomes(Product((8, STEPS)), torch.randn(3, STEPS)) == [
        "multiplied as integers by 1 product"] * 2


def test_scales_of_groups():
    assert sorted(outcomes(Product((8, STEPS), groups=4), torch.randn(3, STEPS))) == [
        f"computed at each call as float32[3, {STEPS}], for tv::matmul_quantised; not multiplied "
        "as integers: scales change along what is summed", "read packed by 1 product"]


def test_long_sums():
    steps = 33026
    told = outcomes(Product((8, steps)), torch.randn(3, steps))
    assert any(outcome.endswith("not multiplied as integers: 32 bits need not hold its sums")
               for outcome in told), told


def test_a_weight_alone():
    assert outcomes(Convolution((8, 4, 3, 3)), torch.randn(2, 4, 9, 9)) == [
        "computed once for each set of weights and held as float32[8, 4, 3, 3], for "
        "aten::convolution; not multiplied as integers: what it is multiplied with is no tensor "
        "of 8-bit integers"]


def test_products_of_integers_in_the_model():
    """torchao's dynamic configuration calls torch._int_mm: the integers of inputs and weights."""
    quantization = pytest.importorskip("torchao.quantization",
                                       reason="torchao is not installed: pip install torchao")
    model = nn.Sequential(nn.Linear(STEPS, 48), nn.ReLU(), nn.Linear(48, 32))
    quantization.quantize_(model, quantization.Int8DynamicActivationInt8WeightConfig())
    report = tv.dry_run(model.eval(), [torch.randn(3, STEPS)], min_block_size=1)
    (engine,) = report.engines
    assert [tensor["outcome"] for tensor in engine["quantised"]] == [
        "multiplied as integers by 1 product"] * 4
    assert sorted(tensor["module_path"] for tensor in engine["quantised"]) == ["0", "0", "2", "2"]
